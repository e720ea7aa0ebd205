/** The port between the client and Socket.IO, and its real implementation. Tests put a plain object here. */
import { io, type Socket } from "socket.io-client";

export interface SocketHandlers {
  connected(): void;
  /** The connection went away, for whatever reason. */
  lost(reason: string): void;
  /** No connection came about: the hub said no (`data` is what it gave as the reason), or was not reached (null). */
  failed(message: string, data: unknown): void;
  event(name: string, payload: unknown): void;
}

export interface SocketPort {
  /** Try once. Trying again is the caller's. */
  connect(): void;
  disconnect(): void;
  emit(event: string, payload: object, acknowledge: (reply: unknown) => void): void;
}

export type OpenSocket = (handlers: SocketHandlers) => SocketPort;

/** A Socket.IO connection to `url` ("" is the page's own origin); `token` is asked for at every attempt. */
export function socketIo(url: string, token: () => string): OpenSocket {
  return (handlers) => {
    let previous: string | undefined;
    const socket: Socket = io(url, {
      path: "/socket.io/",
      // Several nodes share a port: long polling would need sticky sessions.
      transports: ["websocket"],
      // With the name of the last connection the hub can say why it ended, where it could not be told at the time.
      auth: (give) => give({ token: token(), ...(previous && { previous }) }),
      // Connection comes back by its own rules (see connection.ts), which know the hub's codes.
      reconnection: false,
      autoConnect: false,
      forceNew: true,
      timeout: 15_000,
    });
    socket.on("connect", () => {
      previous = socket.id;
      handlers.connected();
    });
    socket.on("disconnect", (reason) => handlers.lost(reason));
    socket.on("connect_error", (error: Error & { data?: unknown }) => {
      // Only the hub's own refusal has this member, even if it is empty; an error of the transport has none.
      handlers.failed(error.message, Object.hasOwn(error, "data") ? (error.data ?? {}) : null);
    });
    socket.onAny((name: string, payload: unknown) => handlers.event(name, payload));
    return {
      connect: () => void socket.connect(),
      disconnect: () => void socket.disconnect(),
      emit: (event, payload, acknowledge) => void socket.emit(event, payload, acknowledge),
    };
  };
}
