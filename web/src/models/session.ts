/** The open session: its document in slices, its log, and what can be done with it. */
import { batch, computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { HubError, type ContextTopic, type ContextTopicState, type HubClient } from "../client";
import type { Replica } from "../replica";
import type { Attachment, ControlAction, HubDocument, Json, WhenBusy } from "../wire";
import { Frame } from "./frame";
import { LogModel } from "./log";
import type { Outbox } from "./outbox";
import { nameFrom } from "./titles";

/** How long a button waits for the hub's answer before it says so, in milliseconds. */
const PATIENCE = 15_000;

export class SessionModel {
  readonly document = signal<HubDocument | null>(null);
  readonly topicState = signal<ContextTopicState>({ kind: "joining" });
  /** Why the session ended; null while it lives. */
  readonly closed = signal<string | null>(null);
  /** Actions that the hub has not answered yet. */
  readonly busy = signal<ReadonlySet<string>>(new Set());
  /** How many messages were sent from here: at each, the view goes to where it is shown. */
  readonly sent = signal(0);
  readonly log: LogModel;

  // Slices keep their identity while nothing in them changes, so that a panel renders for its own part only.
  readonly state = this.#slice((document) => document.state);
  readonly output = this.#slice((document) => document.output);
  readonly plan = this.#slice((document) => document.session_context);
  readonly queue = this.#slice((document) => document.queue);
  readonly asks = this.#slice((document) => document.asks);
  readonly progress = this.#slice((document) => document.progress);
  readonly run = this.#slice((document) => document.run);
  readonly running = this.#slice((document) => document.running);
  readonly paused = this.#slice((document) => document.paused);
  readonly name = this.#slice((document) => document.name);

  #topic: ContextTopic;
  #frame = new Frame(() => this.#flush());
  #stopSettling: () => void;

  constructor(
    readonly id: string,
    private readonly client: HubClient,
    private readonly outbox: Outbox,
    private readonly tell: (error: HubError) => void,
  ) {
    this.log = new LogModel((limit) => this.#topic.older(limit));
    this.#topic = client.watchContext(id, {
      state: (state) => { this.topicState.value = state; },
      replaced: (replica) => {
        this.log.replaced(replica);
        this.#frame.request();
      },
      changed: (replica, touched) => {
        this.log.changed(touched);
        if (touched.document || replica.closed !== null) this.#frame.request();
      },
    });
    this.#stopSettling = effect(() => {
      // An answer may come after what it is about is shown.
      if (outbox.messages.value.some(({ context, status }) => context === id && status === "accepted")) this.#frame.request();
    });
  }

  dispose(): void {
    this.#stopSettling();
    this.#frame.cancel();
    this.log.dispose();
    this.client.unwatch(this.#topic);
  }

  /** Subscribe again after the hub refused it. */
  retry(): void { this.#topic.connected(); }

  /** Nothing was said in it, and nothing waits to be. */
  get empty(): boolean {
    return this.document.value !== null && this.log.newest.value < 0 && this.queue.value?.length === 0 && this.outbox.of(this.id).length === 0;
  }

  /** It is as a new session with `agent` would be. */
  isUnused(agent: string): boolean {
    const document = this.document.value;
    return this.empty && this.closed.value === null && document?.name === "" && document.agent === agent && document.run === null;
  }

  send(text: string, attachments: readonly Attachment[]): void {
    const document = this.document.value;
    if (document && document.name === "" && document.log.length === 0 && document.queue.length === 0) {
      const name = nameFrom(text, attachments);
      if (name) this.client.updateContext(this.id, { name }).catch(() => undefined);
    }
    this.outbox.send(this.id, text, attachments);
    this.sent.value += 1;
  }

  control(action: ControlAction): Promise<void> {
    return this.#act(action, () => this.client.control(this.id, action, { patience: PATIENCE }));
  }

  rename(name: string): Promise<void> {
    return this.#act("rename", () => this.client.updateContext(this.id, { name }, { patience: PATIENCE }));
  }

  editQueued(id: string, text: string): Promise<void> {
    return this.#act(`queue.${id}`, () => this.client.editQueued(this.id, id, text, { patience: PATIENCE }));
  }

  removeQueued(id: string): Promise<void> {
    return this.#act(`queue.${id}`, () => this.client.removeQueued(this.id, id, { patience: PATIENCE }));
  }

  /** Put one waiting message first, or join all that wait into one. */
  sendQueued(which: { id: string } | { joined: true }): Promise<void> {
    return this.#act("queue", () => this.client.sendQueued(this.id, which, { patience: PATIENCE }));
  }

  /** What becomes of messages that come while the agent works. */
  setWhenBusy(when_busy: WhenBusy): Promise<void> {
    return this.#act("when_busy", () => this.client.updateContext(this.id, { when_busy }, { patience: PATIENCE }));
  }

  /** Answer a question of the agent. Who comes second is told whose answer it is. */
  answer(ask: string, value: Json): Promise<void> {
    return this.#act(`ask.${ask}`, () => this.client.answer(this.id, ask, value, { patience: PATIENCE }));
  }

  #act(name: string, request: () => Promise<unknown>): Promise<void> {
    this.busy.value = new Set([...this.busy.value, name]);
    return request().then(() => undefined, (error: unknown) => {
      if (error instanceof HubError && error.code !== "aborted") this.tell(error);
    }).finally(() => {
      const busy = new Set(this.busy.value);
      busy.delete(name);
      this.busy.value = busy;
    });
  }

  #slice<T>(read: (document: HubDocument) => T): ReadonlySignal<T | null> {
    return computed(() => {
      const document = this.document.value;
      return document === null ? null : read(document);
    });
  }

  #flush(): void {
    const replica = this.#topic.replica;
    if (!replica) return;
    batch(() => {
      this.document.value = replica.document;
      this.closed.value = replica.closed;
      // The entry and the message that it comes from change places in one frame.
      this.log.flush();
      this.outbox.settle(this.id, { has: (id) => shows(replica, id), position: replica.position });
    });
  }
}

function shows(replica: Replica, id: string): boolean {
  const { queue, run } = replica.document;
  return replica.entry(id) !== undefined || queue.some((item) => item.id === id) || (run?.messages ?? []).some((item) => item.id === id);
}
