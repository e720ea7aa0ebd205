/** The open session: bar, log, waiting messages, and where to write. */
import type { SessionModel } from "../models/session";
import { useApp } from "./context";
import { Composer } from "./composer";
import { IconButton } from "./button";
import { SessionHeader } from "./header";
import { Icon } from "./icons";
import { LogView } from "./log";
import { PendingMessages, Queue } from "./pending";

interface SessionViewProps { session: SessionModel; panelOpen: boolean; onList: () => void; onPanel: () => void }

export function SessionView({ session, ...bar }: SessionViewProps) {
  const app = useApp();
  const topic = session.topicState.value;
  if (topic.kind === "refused" && session.closed.value === null) return <Refused session={session} onList={bar.onList} />;
  const closed = session.closed.value;
  const loaded = session.document.value !== null;
  const empty = loaded && session.log.newest.value < 0 && (session.queue.value ?? []).length === 0 && app.outbox.of(session.id).length === 0;
  return (
    <main class="main" data-topic={topic.kind}>
      <SessionHeader session={session} {...bar} />
      {!loaded ? <div class="log-frame waiting"><span class="spinner" /></div>
        : empty ? <EmptySession /> : <LogView key={session.id} log={session.log}><PendingMessages context={session.id} /></LogView>}
      <footer class="dock">
        <RunEnd session={session} />
        <Queue session={session} />
        <ProgressLine session={session} />
        {closed !== null
          ? <p class="ended" role="status">This session has ended ({closed}).</p>
          : <Composer draft={app.draft(session.id)} placeholder={session.running.value ? "Write to the agent; it is read next" : "Write to the agent"}
              autofocus onSend={({ text, attachments }) => session.send(text, attachments)} />}
      </footer>
    </main>
  );
}

/** A session that is being made: what was said to it is shown already. */
export function CreatingView({ context, onList }: { context: string; onList: () => void }) {
  return (
    <main class="main">
      <header class="bar session-bar">
        <span class="only-narrow"><IconButton icon="menu" label="Sessions" onClick={onList} /></span>
        <h1 class="title">New session</h1>
      </header>
      <div class="log-frame"><div class="log"><div class="log-content">
        <p class="log-older" role="status"><span class="spinner small" /> The session is being made…</p>
        <PendingMessages context={context} />
      </div></div></div>
    </main>
  );
}

function EmptySession() {
  return (
    <div class="log-frame waiting">
      <div class="empty-session">
        <Icon name="spark" size={28} />
        <p>Nothing here yet. Paste or attach a text, a CSV or a server log, and say what you want to know.</p>
      </div>
    </div>
  );
}

function Refused({ session, onList }: { session: SessionModel; onList: () => void }) {
  const app = useApp();
  const state = session.topicState.value;
  const missing = state.kind === "refused" && state.error.code === "not_found";
  return (
    <main class="main">
      <header class="bar"><span class="only-narrow"><IconButton icon="menu" label="Sessions" onClick={onList} /></span></header>
      <section class="home-body">
        <h1>{missing ? "There is no such session" : "This session cannot be shown"}</h1>
        <p>{missing ? `${session.id} was removed, or is not yours to see.` : state.kind === "refused" ? state.error.message : ""}</p>
        <p class="row">
          <button type="button" class="button" onClick={() => session.retry()}>Try again</button>
          <button type="button" class="button primary" onClick={() => app.route.go(null)}>To the start</button>
        </p>
      </section>
    </main>
  );
}

function ProgressLine({ session }: { session: SessionModel }) {
  const progress = session.progress.value;
  const running = session.running.value ?? false;
  if (!running || !progress) return null;
  const active = progress.active && !session.paused.value;
  return (
    <div class={`progress-line ${active ? "active" : ""}`} role="status" data-role="progress">
      {session.paused.value ? <Icon name="pause" size={15} /> : <span class="spinner small" />}
      <span class="progress-text">{session.paused.value ? "Paused" : progress.text || "Working…"}</span>
    </div>
  );
}

/** A run that did not come to its end: why, and how to go on. */
function RunEnd({ session }: { session: SessionModel }) {
  const run = session.run.value;
  if (!run || session.closed.value !== null || (run.status !== "interrupted" && run.status !== "failed")) return null;
  const error = typeof run.error === "string" ? run.error : "";
  return (
    <div class="run-end" role="status">
      <Icon name="alert" size={17} />
      <p>{run.status === "failed" ? "The run failed" : "The run was interrupted"}{error ? `: ${error}` : "."}</p>
      {run.messages.length > 0 && (
        <button type="button" class="button" disabled={session.busy.value.has("nudge")} onClick={() => void session.control("nudge")}>
          {run.status === "failed" ? "Try again" : "Go on"}
        </button>
      )}
    </div>
  );
}
