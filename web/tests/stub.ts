/** A socket in memory: what the client emits is kept for the test to answer, in the order that the test likes. */
import type { OpenSocket, SocketHandlers } from "../src/client/socket";

export interface Emitted {
  readonly event: string;
  readonly payload: Record<string, unknown>;
  answer(reply: object): void;
}

export class StubSocket {
  handlers!: SocketHandlers;
  attempts = 0;
  connected = false;
  emitted: Emitted[] = [];

  readonly open: OpenSocket = (handlers) => {
    this.handlers = handlers;
    return {
      connect: () => { this.attempts += 1; },
      disconnect: () => {
        if (!this.connected) return;
        this.connected = false;
        handlers.lost("io client disconnect");
      },
      emit: (event, payload, acknowledge) => {
        if (!this.connected) throw new Error(`${event} without a connection`);
        let alive = true;
        this.emitted.push({
          event,
          payload: structuredClone(payload) as Record<string, unknown>,
          answer: (reply) => { if (alive && this.connected) { alive = false; acknowledge(reply); } },
        });
      },
    };
  };

  accept(): void {
    this.connected = true;
    this.emitted = [];
    this.handlers.connected();
    this.handlers.event("hello", { protocol: 1, node: "n", server_time: "", role: "operator", sub: "o", limits: {} });
  }

  lose(reason = "transport close"): void {
    this.connected = false;
    this.handlers.lost(reason);
  }

  of(event: string): Emitted[] {
    return this.emitted.filter((one) => one.event === event);
  }

  last(event: string): Emitted {
    const found = this.of(event).at(-1);
    if (!found) throw new Error(`no ${event} was emitted: ${this.emitted.map((one) => one.event).join(", ")}`);
    return found;
  }
}

/** Let promises that are settled already run their handlers. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}
