/** The client library: one connection to a hub, typed requests, subscriptions that stay right. */
import type {
  Attachment, ContextRow, ControlAction, Hello, Json, NoticeRow, Row, WhenBusy,
} from "../wire";
import { Connection, type LinkState } from "./connection";
import { ContextTopic, type ContextTopicHandlers } from "./context-topic";
import { HubError } from "./errors";
import { randomId } from "./ids";
import { Requests, type SendOptions } from "./requests";
import { RowTopic, type RowTopicHandlers } from "./row-topic";
import { socketIo, type OpenSocket } from "./socket";
import type { TopicLink } from "./subscription";
import { download, upload, type Upload } from "./uploads";

export { HubError } from "./errors";
export { randomId } from "./ids";
export type { LinkState } from "./connection";
export type { ContextTopic, ContextTopicState } from "./context-topic";
export type { RowTopic } from "./row-topic";
export type { SendOptions } from "./requests";
export type { Upload } from "./uploads";

export interface HubClientOptions {
  readonly token: string;
  /** The hub's address; "" (the default) is the page's own origin. */
  readonly url?: string;
  readonly openSocket?: OpenSocket;
  readonly random?: () => number;
}

export interface HubClientHandlers {
  state?(state: LinkState): void;
  hello?(hello: Hello): void;
  degraded?(reason: string | null): void;
}

interface Topic {
  readonly topic: string;
  connected(): void;
  disconnected(): void;
  event(name: string, payload: unknown): void;
  close(): void;
}

export class HubClient implements TopicLink {
  #connection: Connection;
  #requests: Requests;
  #topics = new Map<string, Topic>();
  readonly #url: string;
  readonly #token: string;

  constructor({ token, url = "", openSocket = socketIo(url, () => token), random = Math.random }: HubClientOptions,
    private readonly handlers: HubClientHandlers = {}) {
    this.#url = url;
    this.#token = token;
    this.#requests = new Requests((event, payload, ack) => this.#connection.emit(event, payload, ack), randomId(12));
    this.#connection = new Connection(openSocket, {
      state: (state) => this.#stateChanged(state),
      hello: (hello) => this.handlers.hello?.(hello),
      degraded: (reason) => this.handlers.degraded?.(reason),
      event: (name, payload) => this.#event(name, payload),
    }, random);
  }

  get online(): boolean { return this.#connection.online; }
  /** Unanswered requests that change something. */
  get waiting(): number { return this.#requests.waiting; }

  start(): void { this.#connection.start(); }
  retryNow(): void { this.#connection.retryNow(); }

  stop(): void {
    this.#connection.stop();
    for (const topic of this.#topics.values()) topic.disconnected();
    this.#topics.clear();
    this.#requests.close(new HubError("aborted", "The client was ended."));
  }

  ask<Reply>(event: string, payload: object, options?: { timeout?: number; resend?: boolean }): Promise<Reply> {
    return this.#requests.ask(event, payload, options);
  }

  // Subscriptions. Each stays until it is closed; a topic has at most one.

  watchContext(context: string, handlers: ContextTopicHandlers): ContextTopic {
    return this.#watch(new ContextTopic(context, this, handlers));
  }

  watchContexts(handlers: RowTopicHandlers<ContextRow>): RowTopic<ContextRow> {
    return this.#watch(new RowTopic<ContextRow>("contexts", this, handlers));
  }

  watchNotices(handlers: RowTopicHandlers<NoticeRow>): RowTopic<NoticeRow> {
    return this.#watch(new RowTopic<NoticeRow>("notices", this, handlers));
  }

  unwatch(topic: ContextTopic | RowTopic<ContextRow> | RowTopic<NoticeRow>): void {
    if (this.#topics.get(topic.topic) === topic) this.#topics.delete(topic.topic);
    topic.close();
  }

  // Requests that change something: kept, in order, until the hub has answered.

  createContext(fields: { id: string; name?: string; agent?: string }, options?: SendOptions): Promise<{ id: string }> {
    return this.#requests.send("context.create", fields.id, fields, options);
  }

  updateContext(context: string, fields: { name?: string; when_busy?: WhenBusy }, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("context.update", context, { context, ...fields }, options);
  }

  removeContext(context: string, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("context.remove", context, { context }, options);
  }

  message(context: string, fields: { text: string; attachments?: readonly Attachment[] }, options?: SendOptions): Promise<MessageReply> {
    return this.#requests.send("message", context, { context, ...fields }, options);
  }

  control(context: string, action: ControlAction, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("control", context, { context, action }, options);
  }

  editQueued(context: string, id: string, text: string, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("queue.edit", context, { context, id, text }, options);
  }

  answer(context: string, ask: string, value: Json, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("answer", context, { context, ask, value }, options);
  }

  removeQueued(context: string, id: string, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("queue.remove", context, { context, id }, options);
  }

  /** Give the agent one queued message now (`id`), or all of them as one (`joined`). */
  sendQueued(context: string, which: { id: string } | { joined: true }, options?: SendOptions): Promise<unknown> {
    return this.#requests.send("queue.send", context, { context, ...which }, options);
  }

  // Requests that read, and marks that may be made twice.

  pageContexts(before: Json, limit: number): Promise<{ rows: readonly ContextRow[]; next?: Json }> {
    return this.ask("contexts.page", { before, limit });
  }

  readNotices(ids: readonly string[]): Promise<unknown> {
    return this.ask("notice.read", { ids });
  }

  /** Names of the agents that are connected now; hello tells those of its moment. */
  async agents(): Promise<readonly string[]> {
    const health = await (await fetch(`${this.#url}/healthz`)).json() as { agents?: readonly string[] };
    return health.agents ?? [];
  }

  upload(file: File, progress: (share: number) => void, signal?: AbortSignal): Promise<Upload> {
    return upload(this.#url, this.#token, file, progress, signal);
  }

  download(id: string): Promise<Blob> {
    return download(this.#url, this.#token, id);
  }

  #watch<T extends Topic>(topic: T): T {
    if (this.#topics.has(topic.topic)) throw new Error(`${topic.topic} is watched already`);
    this.#topics.set(topic.topic, topic);
    if (this.online) topic.connected();
    return topic;
  }

  #event(name: string, payload: unknown): void {
    const topic = (payload as { topic?: unknown } | null)?.topic;
    if (typeof topic === "string") this.#topics.get(topic)?.event(name, payload);
  }

  #stateChanged(state: LinkState): void {
    const online = state.kind === "online";
    if (!online) {
      for (const topic of this.#topics.values()) topic.disconnected();
      this.#requests.disconnected();
    }
    this.handlers.state?.(state);
    if (online) {
      // What was promised before goes out first; then what is looked at.
      this.#requests.connected();
      for (const topic of this.#topics.values()) topic.connected();
    }
  }
}

/** `id`: the queued message's; the position, where the hub tells it, is the one that has it. */
export interface MessageReply {
  readonly id?: string;
  readonly epoch?: string;
  readonly seq?: number;
}

export type { Row };
