/** What the user has said and the agent has not taken yet: queued at the hub, or still on the way there. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { PendingMessage } from "../models/outbox";
import type { SessionModel } from "../models/session";
import type { QueueItem } from "../wire";
import { IconButton } from "./button";
import { useApp } from "./context";
import { Files } from "./files";
import { Icon } from "./icons";
import { memo } from "./memo";

export function PendingMessages({ context }: { context: string }) {
  const { outbox } = useApp();
  const pending = outbox.of(context);
  return <>{pending.map((message) => <PendingBubble key={message.local} message={message} />)}</>;
}

const STATUS: Record<PendingMessage["status"], string> = {
  sending: "Sending…", accepted: "Sent", waiting: "Waiting for the hub", failed: "Not sent",
};

const PendingBubble = memo(function PendingBubble({ message }: { message: PendingMessage }) {
  const app = useApp();
  const { local, status, text, attachments, error } = message;
  const takeBack = (): void => {
    const draft = app.draft(message.context);
    const taken = app.outbox.takeBack(local);
    if (taken !== null && draft.text.value.trim() === "") draft.text.value = taken;
  };
  return (
    <article class={`entry user pending ${status}`} data-pending={status} aria-label="Your message, on the way">
      <div class="bubble">
        {text && <div class="plain">{text}</div>}
        <Files files={attachments} />
      </div>
      <p class="pending-status" role="status">
        {status === "failed" ? <Icon name="error" size={14} /> : <span class="spinner small" />}
        <span>{app.link.value.kind === "online" || status === "failed" ? STATUS[status] : "Waiting for the connection"}</span>
        {error && <span class="pending-error">{error}</span>}
        {status === "failed" && <button type="button" class="link" onClick={() => app.outbox.retry(local)}>Try again</button>}
        {status !== "accepted" && <button type="button" class="link" onClick={takeBack}>Take back</button>}
      </p>
    </article>
  );
});

/** A message that nobody takes for so long, in milliseconds, is worth a word even if its agent is connected. */
const UNTAKEN = 6_000;

export interface Waiting {
  readonly paused: boolean;
  /** Whom the messages are for; null is the hub's default agent, whose name the page does not know. */
  readonly agent: string | null;
  /** Names of the agents that are connected. */
  readonly served: readonly string[];
  readonly count: number;
  /** They wait for longer than an agent with room needs to take one. */
  readonly long: boolean;
}

/** Why messages wait; null while there is nothing to say. */
export function whyUntaken({ paused, agent, served, count, long }: Waiting): string | null {
  if (paused) return "The session is paused.";
  const wait = count === 1 ? "The message waits" : "The messages wait";
  if (agent === null && served.length === 0) return `No agent is connected. ${wait} for the hub's default agent.`;
  if (agent !== null && !served.includes(agent)) return `No agent “${agent}” is connected. ${wait} for it.`;
  const first = count === 1 ? "it" : "the first";
  return long ? `${agent === null ? "The hub's default agent" : `The agent “${agent}”`} has not taken ${first} yet.` : null;
}

/** Why the first message still waits. Agents come and go: the hub is asked at once, and again while it waits. */
function Untaken({ session, first, count }: { session: SessionModel; first: string; count: number }) {
  const asked = useSignal<"never" | "once" | "again">("never");
  const app = useApp();
  const idle = !session.running.value;
  useEffect(() => {
    asked.value = "never";
    if (!idle) return;
    let over = false;
    const ask = (then: "once" | "again"): void => void app.askForAgents().then(() => { if (!over) asked.value = then; });
    ask("once");
    const timer = setInterval(() => ask("again"), UNTAKEN);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [first, idle]);
  if (!idle || asked.value === "never" || app.link.value.kind !== "online") return null;
  const why = whyUntaken({
    paused: session.paused.value === true, agent: session.document.value?.agent ?? null, served: app.served.value, count, long: asked.value === "again",
  });
  return why && <p class="untaken" role="status">{why}</p>;
}

export function Queue({ session }: { session: SessionModel }) {
  const items = session.queue.value ?? [];
  const { readOnly } = useApp();
  if (items.length === 0) return null;
  return (
    <section class="queue" aria-label="Waiting messages">
      <header>
        <h3>{items.length === 1 ? "1 message waits" : `${items.length} messages wait`}</h3>
        {items.length > 1 && !readOnly && (
          <button type="button" class="link" disabled={session.busy.value.has("queue")} onClick={() => void session.sendQueued({ joined: true })}>
            Join into one
          </button>
        )}
      </header>
      <Untaken session={session} first={items[0]?.id ?? ""} count={items.length} />
      <ol>{items.map((item, at) => <QueueRow key={item.id} item={item} first={at === 0} session={session} />)}</ol>
    </section>
  );
}

const QueueRow = memo(function QueueRow({ item, first, session }: { item: QueueItem; first: boolean; session: SessionModel }) {
  const { readOnly } = useApp();
  const editing = useSignal<string | null>(null);
  const busy = session.busy.value.has(`queue.${item.id}`);
  const save = (): void => {
    const text = editing.value?.trim() ?? "";
    editing.value = null;
    if (text && text !== item.text) void session.editQueued(item.id, text);
  };
  if (editing.value !== null) {
    return (
      <li class="queue-item editing" data-id={item.id}>
        <textarea aria-label="Waiting message" value={editing.value} rows={3} ref={(element) => element?.focus()}
          onInput={(event) => { editing.value = event.currentTarget.value; }}
          onKeyDown={(event) => {
            if (event.key === "Escape") editing.value = null;
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); save(); }
          }} />
        <IconButton icon="check" label="Save" onClick={save} />
        <IconButton icon="close" label="Cancel" onClick={() => { editing.value = null; }} />
      </li>
    );
  }
  return (
    <li class="queue-item" data-id={item.id}>
      <div class="queue-text">
        <span>{item.text}</span>
        <Files files={item.attachments} />
      </div>
      {!readOnly && (
        <>
          {!first && <IconButton icon="send" label="Send this one first" disabled={busy} onClick={() => void session.sendQueued({ id: item.id })} />}
          <IconButton icon="edit" label="Edit message" disabled={busy} onClick={() => { editing.value = item.text; }} />
          <IconButton icon="trash" label="Remove message" disabled={busy} onClick={() => void session.removeQueued(item.id)} />
        </>
      )}
    </li>
  );
});
