/**
 * One connection that comes back by itself.
 *
 * Socket.IO does not reconnect after the server's own disconnect or a refusal, and knows neither the hub's codes nor
 * `retry_after_ms`; so its own reconnection is off and the rules are here: 45xx ends it, anything else is tried
 * again, with growing and spread waits.
 */
import type { Farewell, Hello } from "../wire";
import { Backoff } from "./backoff";
import type { OpenSocket, SocketPort } from "./socket";

export type LinkState =
  | { readonly kind: "connecting" }
  | { readonly kind: "online" }
  | { readonly kind: "offline"; readonly reason: string; readonly retryAt: number }
  | { readonly kind: "refused"; readonly code: number; readonly reason: string };

export interface ConnectionHandlers {
  state(state: LinkState): void;
  hello(hello: Hello): void;
  event(name: string, payload: unknown): void;
  /** Redis is away (or back): the hub answers from what is confirmed, and writes wait. */
  degraded(reason: string | null): void;
}

const SILENCE = new Set(["io client disconnect"]);

export class Connection {
  #socket: SocketPort;
  #state: LinkState = { kind: "connecting" };
  #backoff: Backoff;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #farewell: Farewell | null = null;
  #stopped = false;

  constructor(
    open: OpenSocket,
    private readonly handlers: ConnectionHandlers,
    private readonly random: () => number = Math.random,
  ) {
    this.#backoff = new Backoff({ first: 300, limit: 10_000, random });
    this.#socket = open({
      connected: () => this.#connected(),
      lost: (reason) => this.#lost(reason),
      failed: (message, data) => this.#failed(message, data),
      event: (name, payload) => this.#event(name, payload),
    });
  }

  get online(): boolean { return this.#state.kind === "online"; }
  get state(): LinkState { return this.#state; }

  start(): void {
    this.#stopped = false;
    this.#try();
  }

  stop(): void {
    this.#stopped = true;
    this.#clearTimer();
    this.#socket.disconnect();
  }

  /** Try at once instead of waiting: the network came back, or the user asks. Does nothing while online. */
  retryNow(): void {
    if (this.#state.kind === "offline" && !this.#stopped) this.#try();
  }

  emit(event: string, payload: object, acknowledge: (reply: unknown) => void): void {
    this.#socket.emit(event, payload, acknowledge);
  }

  #try(): void {
    this.#clearTimer();
    this.#farewell = null;
    this.#set({ kind: "connecting" });
    this.#socket.connect();
  }

  #connected(): void {
    this.#set({ kind: "online" });
  }

  #lost(reason: string): void {
    if (this.#stopped || SILENCE.has(reason)) return;
    const farewell = this.#farewell;
    if (farewell && isFinal(farewell)) return this.#refuse(farewell);
    this.#wait(farewell?.reason ?? "The connection was lost.", farewell?.retry_after_ms);
  }

  #failed(message: string, data: unknown): void {
    if (this.#stopped) return;
    const refusal = readRefusal(message, data);
    if (refusal && isFinal(refusal)) return this.#refuse(refusal);
    this.#wait(refusal?.reason ?? "The hub cannot be reached.", refusal?.retry_after_ms);
  }

  #event(name: string, payload: unknown): void {
    switch (name) {
      case "hello":
        this.#hello(payload as Hello);
        this.handlers.degraded(degradedReason({ degraded: (payload as Hello).degraded ?? false }));
        return this.handlers.hello(payload as Hello);
      case "hub.disconnect":
        this.#farewell = payload as Farewell;
        return;
      case "hub.degraded":
        return this.handlers.degraded(degradedReason(payload));
      case "hub.drain":
        return this.#drain(payload as { seconds?: unknown });
      default:
        return this.handlers.event(name, payload);
    }
  }

  /** Who was ended for what it did too much comes back as slowly as before. */
  #hello({ previous }: Hello): void {
    if (previous) console.warn(`The hub had ended the last connection: ${previous.reason} (${previous.code})`);
    else this.#backoff.reset();
  }

  /** The node ends in some seconds: come back elsewhere before, at a moment of one's own, so that not all do at once. */
  #drain({ seconds }: { seconds?: unknown }): void {
    const span = typeof seconds === "number" && seconds >= 0 ? seconds : 5;
    this.#clearTimer();
    this.#timer = setTimeout(() => {
      this.#socket.disconnect();
      this.#try();
    }, this.random() * Math.min(span, 10) * 1000);
  }

  #wait(reason: string, least: number | undefined): void {
    const delay = this.#backoff.next(least);
    this.#clearTimer();
    this.#timer = setTimeout(() => this.#try(), delay);
    this.#set({ kind: "offline", reason, retryAt: Date.now() + delay });
  }

  #refuse({ code, reason }: Farewell): void {
    this.#clearTimer();
    this.#socket.disconnect();
    this.#set({ kind: "refused", code, reason });
  }

  #clearTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #set(state: LinkState): void {
    this.#state = state;
    this.handlers.state(state);
  }
}

function isFinal({ code, reconnect }: Farewell): boolean {
  return (code >= 4500 && code < 4600) || reconnect === false;
}

/** What a refusal at connect says; null if the hub was not reached at all. */
function readRefusal(message: string, data: unknown): Farewell | null {
  if (data === null || data === undefined) return null;
  const { code, reason, message: inner, reconnect, retry_after_ms: after } =
    typeof data === "object" ? (data as Record<string, unknown>) : ({} as Record<string, unknown>);
  return {
    code: typeof code === "number" ? code : 0,
    reason: [reason, inner, message].find((text): text is string => typeof text === "string") ?? "The hub refused the connection.",
    ...(typeof reconnect === "boolean" && { reconnect }),
    ...(typeof after === "number" && { retry_after_ms: after }),
  };
}

function degradedReason(payload: unknown): string | null {
  const { degraded, active, reason } = (payload ?? {}) as { degraded?: unknown; active?: unknown; reason?: unknown };
  if (degraded === false || active === false) return null;
  return typeof reason === "string" && reason !== "" ? reason : "The hub's record is away; changes wait.";
}
