/** Files on their way to the hub, as part of a draft. */
import { signal, type Signal } from "@preact/signals";
import type { HubClient } from "../client";
import type { Attachment } from "../wire";
import { bytes } from "./clock";

export interface DraftFile {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  /** The share that was sent, 0 to 1. */
  readonly progress: Signal<number>;
  readonly upload: Attachment | null;
  readonly error: string | null;
  /** The hub takes no file of this size: there is no use in trying again. */
  readonly tooLarge: boolean;
}

export interface Written { readonly text: string; readonly attachments: Attachment[] }

export class Draft {
  readonly text = signal("");
  readonly files = signal<readonly DraftFile[]>([]);
  /** The user has sent it, and it waits for its files. */
  readonly waiting = signal(false);
  #deliver: ((message: Written) => void) | null = null;
  #running = new Map<number, { file: File; abort: AbortController }>();
  #count = 0;

  /** `limit` tells how many bytes a file may have, once the hub has said so. */
  constructor(private readonly client: Pick<HubClient, "upload">, private readonly limit: () => number | undefined = () => undefined) {}

  /** Files are still on their way. */
  get uploading(): boolean { return this.files.value.some((file) => file.upload === null && file.error === null); }

  /** Why there is nothing to send; null when there is. A file that failed keeps nothing else from being sent. */
  get blocked(): string | null {
    if (this.text.value.trim() !== "" || this.files.value.some((file) => file.error === null)) return null;
    return this.files.value.length === 0 ? "Write a message or attach a file first" : "The file could not be uploaded: remove it, or write a message";
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      const key = ++this.#count;
      const limit = this.limit();
      const tooLarge = limit !== undefined && file.size > limit;
      const error = tooLarge ? `Too large: the hub takes files up to ${bytes(limit)}.` : null;
      this.files.value = [...this.files.value, { key, name: file.name, size: file.size, progress: signal(0), upload: null, error, tooLarge }];
      if (!tooLarge) this.#start(key, file);
    }
  }

  retry(key: number): void {
    const file = this.#running.get(key)?.file;
    if (!file) return;
    this.#change(key, { error: null });
    this.#start(key, file);
  }

  remove(key: number): void {
    this.#running.get(key)?.abort.abort();
    this.#running.delete(key);
    this.files.value = this.files.value.filter((file) => file.key !== key);
    this.#proceed();
  }

  /** Hand it over to `deliver`: at once, or when the files that are on their way have arrived. */
  send(deliver: (message: Written) => void): void {
    if (this.blocked !== null) return;
    this.#deliver = deliver;
    this.waiting.value = true;
    this.#proceed();
  }

  /** Do not send it when the files have arrived. */
  hold(): void {
    this.#deliver = null;
    this.waiting.value = false;
  }

  #proceed(): void {
    const deliver = this.#deliver;
    if (deliver === null || this.uploading) return;
    this.hold();
    if (this.blocked === null) deliver(this.#take());
  }

  /** What is sent; files that failed stay. */
  #take(): Written {
    const text = this.text.value.trim();
    const sent = this.files.value.filter((file) => file.error === null);
    this.text.value = "";
    this.files.value = this.files.value.filter((file) => file.error !== null);
    for (const { key } of sent) this.#running.delete(key);
    return {
      text,
      attachments: sent.flatMap(({ upload }) => (upload ? [{ id: upload.id, name: upload.name, size: upload.size, type: upload.type }] : [])),
    };
  }

  #start(key: number, file: File): void {
    const abort = new AbortController();
    this.#running.set(key, { file, abort });
    const progress = this.files.value.find((one) => one.key === key)?.progress;
    if (progress) progress.value = 0;
    this.client.upload(file, (share) => { if (progress) progress.value = share; }, abort.signal).then(
      (upload) => {
        this.#change(key, { upload });
        this.#proceed();
      },
      (error: unknown) => {
        if (!this.#running.has(key)) return;
        // Who sent the message meant it with this file: let them decide.
        this.hold();
        this.#change(key, { error: error instanceof Error ? error.message : String(error) });
      },
    );
  }

  #change(key: number, fields: Partial<DraftFile>): void {
    this.files.value = this.files.value.map((file) => (file.key === key ? { ...file, ...fields } : file));
  }
}
