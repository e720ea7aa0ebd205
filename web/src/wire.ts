/**
 * The data shapes of the wire (`hub/wire/PROTOCOL.md`), as types. No behaviour lives here.
 *
 * Times are ISO 8601 texts in UTC. A position is (epoch, seq), always moved about as one value.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface Position {
  readonly epoch: string;
  readonly seq: number;
}

export const ENTRY_TYPES = [
  "agent", "browser", "code_exe", "subagent", "error", "hint", "info", "progress",
  "response", "tool", "mcp", "input", "user", "util", "warning",
] as const;
export type EntryType = (typeof ENTRY_TYPES)[number];

export interface Entry {
  readonly no: number;
  readonly id: string;
  readonly type: EntryType;
  readonly heading: string;
  readonly content: string;
  readonly kvps: { readonly [key: string]: Json };
  readonly timestamp: string;
  /** How many characters were cut off the text; absent when nothing was. */
  readonly cut?: number;
}

export interface Attachment {
  readonly id: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
}

export interface QueueItem {
  readonly id: string;
  readonly text: string;
  readonly attachments: readonly Attachment[];
  readonly user_id: string | null;
  readonly created_at: string;
}

export type StepStatus = "pending" | "active" | "done";

export interface SessionContext {
  readonly summary?: string;
  readonly goal?: string;
  readonly plan?: readonly { readonly text: string; readonly status: StepStatus }[];
  readonly progress?: readonly string[];
  readonly created_at?: string;
  readonly updated_at?: string;
}

export type RunStatus =
  | "starting" | "running" | "waiting" | "stopping"
  | "finished" | "failed" | "stopped" | "interrupted";

export interface Run {
  readonly id: string;
  readonly fence: number;
  readonly status: RunStatus;
  readonly agent: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly started_at: string;
  readonly ended_at?: string;
  readonly error?: Json;
  readonly messages: readonly QueueItem[];
}

/** A question of an agent to people; the first answer is the one. */
export interface Ask {
  readonly question: string;
  /** The answer is one of them; null: whatever somebody writes. */
  readonly options: readonly Json[] | null;
  readonly status: "open" | "answered" | "expired" | "withdrawn";
  readonly run: string | null;
  readonly asked_at: string;
  /** Nobody can answer from then on. */
  readonly expires_at: string | null;
  readonly value?: Json;
  readonly by?: string;
  readonly answered_at?: string;
}

/** What viewers see of a context. All fields are always present. */
/** What becomes of a message that comes while the agent works on another. */
export const WHEN_BUSY = ["queue", "interrupt", "reject", "replace"] as const;
export type WhenBusy = (typeof WHEN_BUSY)[number];

export interface HubDocument {
  readonly id: string;
  readonly name: string;
  readonly type: "user" | "task" | "background";
  readonly no: number;
  readonly created_at: string;
  readonly last_message: string;
  readonly user_id: string | null;
  readonly metadata: JsonObject;
  readonly running: boolean;
  readonly paused: boolean;
  readonly progress: { readonly text: string; readonly entry: string | null; readonly active: boolean };
  readonly state: JsonObject;
  readonly output: JsonObject;
  readonly session_context: SessionContext;
  readonly queue: readonly QueueItem[];
  readonly run: Run | null;
  readonly agent: string | null;
  readonly when_busy: WhenBusy;
  readonly asks: { readonly [id: string]: Ask };
  /** `length`: how many entries it ever had. `first`: the number of the oldest that is kept; absent while all are. */
  readonly log: { readonly id: string; readonly length: number; readonly first?: number };
  readonly versions: { readonly [part: string]: string };
}

export type PatchOp =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

export type Part =
  | { readonly kind: "patch"; readonly ops: readonly PatchOp[] }
  | { readonly kind: "log.add"; readonly entry: Entry }
  | ({ readonly kind: "log.update"; readonly id: string }
      & Partial<Pick<Entry, "type" | "heading" | "content" | "kvps" | "cut">>
      & { readonly gone?: readonly string[] })
  | { readonly kind: "log.append"; readonly id: string; readonly at: number; readonly text: string }
  | { readonly kind: "log.reset"; readonly log_id: string }
  | { readonly kind: "log.trim"; readonly before: number; readonly ids: readonly string[] }
  | { readonly kind: "data"; readonly key: string; readonly value?: Json }
  | { readonly kind: "closed"; readonly reason: string };

export interface Change extends Position {
  readonly parts: readonly Part[];
}

/** A whole context at one position; `entries` are the newest of its log, oldest first, without gaps. */
export interface Snapshot extends Position {
  readonly document: HubDocument;
  readonly log_id: string;
  readonly entries: readonly Entry[];
  readonly data?: JsonObject;
}

export interface ChangeEvent extends Change {
  readonly topic: string;
}

export interface SnapshotEvent extends Position {
  readonly topic: string;
  readonly document: HubDocument;
  readonly recovered?: boolean;
  readonly reason?: string;
  readonly log_id?: string;
  readonly entries?: readonly Entry[];
  readonly data?: JsonObject;
}

export interface SubscribeReply extends Position {
  readonly ok: true;
  readonly recovered: boolean;
  readonly reason?: string;
  readonly document?: HubDocument;
  readonly log_id?: string;
  readonly entries?: readonly Entry[];
  readonly data?: JsonObject;
}

/** A row of a row topic: `version` is `"epoch:seq"`, its own position. */
export interface Row {
  readonly id: string;
  readonly version: string;
}

export interface RowEvent<R extends Row> {
  readonly topic: string;
  readonly id: string;
  readonly version: string;
  readonly row: R | null;
}

export interface RowsReply<R extends Row> {
  readonly ok: true;
  readonly rows: readonly R[];
  readonly next?: Json;
  readonly read?: readonly string[];
}

export interface ContextRow extends Row {
  readonly name: string;
  readonly type: "user" | "task" | "background";
  readonly no: number;
  readonly user_id: string | null;
  readonly agent: string | null;
  readonly created_at: string;
  readonly last_message: string;
  readonly running: boolean;
  readonly paused: boolean;
}

export type NoticeType = "info" | "success" | "warning" | "error" | "progress";

export interface NoticeRow extends Row {
  readonly type: NoticeType;
  readonly title: string;
  readonly message: string;
  readonly detail: string;
  readonly priority: number;
  readonly display_time: number;
  readonly group: string;
  readonly source: "operator" | "context";
  readonly context: string | null;
  readonly created_at: string;
  readonly starts_at: string | null;
  readonly expires_at: string | null;
}

export interface Hello {
  readonly protocol: number | string;
  readonly node: string;
  readonly server_time: string;
  readonly role: string;
  readonly sub: string | null;
  readonly limits: { readonly [name: string]: number };
  readonly agents?: readonly string[];
  readonly degraded?: boolean;
  /** Why the hub ended this client's last connection, where it could not be told at the time. */
  readonly previous?: { readonly code: number; readonly reason: string; readonly at: string };
}

/** What the hub says before it ends a connection, and what a refusal at connect carries. */
export interface Farewell {
  readonly code: number;
  readonly reason: string;
  readonly reconnect?: boolean;
  readonly retry_after_ms?: number;
}

export type ControlAction = "stop" | "pause" | "resume" | "nudge" | "reset";
