/** Files go over HTTP and are then named by their id. */
import type { Attachment } from "../wire";
import { errorIn, HubError } from "./errors";

export interface Upload extends Attachment {
  readonly expires_at?: string;
}

/** Send one file; `progress` hears the share sent, 0 to 1. */
export function upload(
  url: string, token: string, file: File, progress: (share: number) => void, signal?: AbortSignal,
): Promise<Upload> {
  return new Promise((resolve, reject) => {
    // fetch() tells nothing about how much of a body has been sent.
    const request = new XMLHttpRequest();
    request.open("POST", `${url}/api/v1/uploads?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.responseType = "text";
    request.upload.onprogress = (event) => { if (event.lengthComputable) progress(event.loaded / event.total); };
    request.onload = () => {
      const reply = parse(request.responseText);
      const error = errorIn(reply);
      if (error) reject(error.code === "bad_reply" ? new HubError("bad_reply", `The upload failed (HTTP ${request.status}).`) : error);
      else resolve((reply as { upload: Upload }).upload);
    };
    request.onerror = () => reject(new HubError("disconnected", "The hub cannot be reached.", true));
    request.onabort = () => reject(new HubError("aborted", "Taken back."));
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** The bytes of an upload. */
export async function download(url: string, token: string, id: string): Promise<Blob> {
  const reply = await fetch(`${url}/api/v1/uploads/${encodeURIComponent(id)}`, { headers: { Authorization: `Bearer ${token}` } });
  if (reply.ok) return reply.blob();
  throw errorIn(parse(await reply.text())) ?? new HubError("bad_reply", `HTTP ${reply.status}`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
