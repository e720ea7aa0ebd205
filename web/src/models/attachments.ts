/** Files on their way to the hub, as part of a draft. */
import { signal, type Signal } from "@preact/signals";
import type { HubClient } from "../client";
import type { Attachment } from "../wire";

export interface DraftFile {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  /** The share that was sent, 0 to 1. */
  readonly progress: Signal<number>;
  readonly upload: Attachment | null;
  readonly error: string | null;
}

export class Draft {
  readonly text = signal("");
  readonly files = signal<readonly DraftFile[]>([]);
  #running = new Map<number, { file: File; abort: AbortController }>();
  #count = 0;

  constructor(private readonly client: Pick<HubClient, "upload">) {}

  get empty(): boolean { return this.text.value.trim() === "" && this.files.value.length === 0; }
  /** All files have arrived. */
  get ready(): boolean { return this.files.value.every((file) => file.upload !== null); }

  add(files: Iterable<File>): void {
    for (const file of files) {
      const key = ++this.#count;
      this.files.value = [...this.files.value, { key, name: file.name, size: file.size, progress: signal(0), upload: null, error: null }];
      this.#start(key, file);
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
  }

  /** Text and files as they are sent; the draft is empty afterwards. */
  take(): { text: string; attachments: Attachment[] } {
    const taken = {
      text: this.text.value.trim(),
      attachments: this.files.value.flatMap(({ upload }) =>
        (upload ? [{ id: upload.id, name: upload.name, size: upload.size, type: upload.type }] : [])),
    };
    this.text.value = "";
    this.files.value = [];
    this.#running.clear();
    return taken;
  }

  #start(key: number, file: File): void {
    const abort = new AbortController();
    this.#running.set(key, { file, abort });
    const progress = this.files.value.find((one) => one.key === key)?.progress;
    if (progress) progress.value = 0;
    this.client.upload(file, (share) => { if (progress) progress.value = share; }, abort.signal).then(
      (upload) => this.#change(key, { upload }),
      (error: unknown) => this.#change(key, { error: error instanceof Error ? error.message : String(error) }),
    );
  }

  #change(key: number, fields: Partial<DraftFile>): void {
    this.files.value = this.files.value.map((file) => (file.key === key ? { ...file, ...fields } : file));
  }
}
