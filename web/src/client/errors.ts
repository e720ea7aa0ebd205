/**
 * Every failure of a request is a HubError: the hub's own codes, and four of the client's.
 *
 *   HubError
 *     code "timeout"       no answer in time
 *     code "disconnected"  the connection went away before the answer
 *     code "refused"       the hub refused this client for good
 *     code "bad_reply"     an answer that is none
 *     any other            as the hub said it; `retryable` and `details` are the hub's
 */
import type { Json } from "../wire";

export class HubError extends Error {
  override readonly name = "HubError";

  constructor(
    readonly code: string,
    message: string,
    readonly retryable: boolean = false,
    readonly details: Json = null,
  ) {
    super(message);
  }
}

/** The error in a reply or an HTTP body `{ok: false, error}`; null if it says `ok: true`. */
export function errorIn(reply: unknown): HubError | null {
  if (typeof reply !== "object" || reply === null) return new HubError("bad_reply", "The hub's answer is not an object.");
  const { ok, error } = reply as { ok?: unknown; error?: { code?: unknown; message?: unknown; retryable?: unknown; details?: Json } };
  if (ok === true) return null;
  return new HubError(
    typeof error?.code === "string" ? error.code : "bad_reply",
    typeof error?.message === "string" ? error.message : "The hub's answer cannot be read.",
    error?.retryable === true,
    error?.details ?? null,
  );
}

export function asHubError(error: unknown): HubError {
  if (error instanceof HubError) return error;
  return new HubError("bad_reply", error instanceof Error ? error.message : String(error));
}

/** Milliseconds after which the hub wants to be asked again; 0 if it does not say. */
export function retryAfter({ details }: HubError): number {
  if (typeof details !== "object" || details === null || Array.isArray(details)) return 0;
  const after = details["retry_after_ms"];
  return typeof after === "number" ? after : 0;
}
