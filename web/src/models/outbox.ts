/**
 * Messages that the user has sent and that the session does not show yet.
 *
 * They are shown at once and marked; the client library keeps sending them until the hub has answered. One leaves
 * here when the session shows it, or when the user takes it back. They outlive a change of the session on screen.
 */
import { signal, type ReadonlySignal } from "@preact/signals";
import { HubError, type HubClient, type MessageReply } from "../client";
import type { Attachment } from "../wire";

export interface PendingMessage {
  readonly local: number;
  readonly context: string;
  readonly text: string;
  readonly attachments: readonly Attachment[];
  readonly status: "sending" | "waiting" | "accepted" | "failed";
  /** Why it waits or failed. */
  readonly error: string | null;
  /** Its id in the session, once the hub has answered. */
  readonly id: string | null;
}

/** What a session shows; `position` is where its replica stands. */
export interface Shown {
  readonly has: (messageId: string) => boolean;
  readonly position: { readonly epoch: string; readonly seq: number } | null;
}

/** An accepted message that a session does not show after this time was taken and has left its tail. */
const GRACE = 5_000;

export class Outbox {
  #messages = signal<readonly PendingMessage[]>([]);
  #aborts = new Map<number, AbortController>();
  #accepted = new Map<number, { reply: MessageReply; at: number }>();
  #count = 0;

  constructor(private readonly client: Pick<HubClient, "message">) {}

  get messages(): ReadonlySignal<readonly PendingMessage[]> { return this.#messages; }

  of(context: string): readonly PendingMessage[] {
    return this.#messages.value.filter((message) => message.context === context);
  }

  send(context: string, text: string, attachments: readonly Attachment[]): void {
    const local = ++this.#count;
    this.#messages.value = [...this.#messages.value,
      { local, context, text, attachments, status: "sending", error: null, id: null }];
    this.#emit(local, context, text, attachments);
  }

  /** Send a failed one again. */
  retry(local: number): void {
    const message = this.#find(local);
    if (message?.status !== "failed") return;
    this.#change(local, { status: "sending", error: null });
    this.#emit(local, message.context, message.text, message.attachments);
  }

  /** Take one back that the hub has not accepted; answers its text, to go on editing. */
  takeBack(local: number): string | null {
    const message = this.#find(local);
    if (!message || message.status === "accepted") return null;
    this.#drop(local);
    this.#aborts.get(local)?.abort();
    return message.text;
  }

  /** Drop what `context` shows by now. */
  settle(context: string, shown: Shown): void {
    for (const message of this.of(context)) {
      const accepted = this.#accepted.get(message.local);
      if (!accepted) continue;
      const { reply, at } = accepted;
      const passed = shown.position !== null && reply.seq !== undefined && reply.epoch === shown.position.epoch
        && shown.position.seq >= reply.seq;
      if (passed || (reply.id !== undefined && shown.has(reply.id)) || (shown.position !== null && Date.now() - at > GRACE)) {
        this.#drop(message.local);
      }
    }
  }

  #emit(local: number, context: string, text: string, attachments: readonly Attachment[]): void {
    const abort = new AbortController();
    this.#aborts.set(local, abort);
    this.client.message(context, { text, attachments }, {
      signal: abort.signal,
      onRetry: (error) => this.#change(local, { status: "waiting", error: error.message }),
    }).then(
      (reply) => {
        this.#accepted.set(local, { reply, at: Date.now() });
        this.#change(local, { status: "accepted", error: null, id: reply.id ?? null });
      },
      (error: unknown) => {
        if (error instanceof HubError && error.code === "aborted") return;
        this.#change(local, { status: "failed", error: error instanceof Error ? error.message : String(error) });
      },
    );
  }

  #find(local: number): PendingMessage | undefined {
    return this.#messages.value.find((message) => message.local === local);
  }

  #change(local: number, fields: Partial<PendingMessage>): void {
    this.#messages.value = this.#messages.value.map((message) => (message.local === local ? { ...message, ...fields } : message));
  }

  #drop(local: number): void {
    this.#accepted.delete(local);
    this.#messages.value = this.#messages.value.filter((message) => message.local !== local);
  }
}
