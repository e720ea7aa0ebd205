/** The open session: bar, log, waiting messages, and where to write. */
import type { SessionModel } from "../models/session";
import { Asks } from "./asks";
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
  return (
    <main class="main" data-topic={topic.kind}>
      <SessionHeader session={session} {...bar} />
      {!loaded ? <div class="log-frame waiting"><span class="spinner" /></div>
        : session.empty ? <EmptySession /> : <LogView key={session.id} log={session.log} toEnd={session.sent}><PendingMessages context={session.id} /></LogView>}
      <footer class="dock">
        <RunEnd session={session} />
        <Asks session={session} />
        <Queue session={session} />
        <ProgressLine session={session} />
        {closed !== null
          ? <p class="ended" role="status">This session has ended ({closed}).</p>
          : app.readOnly ? <ReadOnly /> : <Composer draft={app.draft(session.id)} placeholder={session.running.value ? "Write to the agent; it is read next" : "Write to the agent"}
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

function ReadOnly() {
  return <p class="ended" role="note">You can read here, but not write: your access is read only.</p>;
}

function EmptySession() {
  const app = useApp();
  return (
    <div class="log-frame waiting">
      <div class="empty-session">
        <Icon name="spark" size={28} />
        <p>{app.readOnly ? "Nothing here yet." : "Nothing here yet. Paste or attach a text, a CSV or a server log, and say what you want to know."}</p>
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
  const app = useApp();
  const run = session.run.value;
  if (!run || session.closed.value !== null || (run.status !== "interrupted" && run.status !== "failed")) return null;
  const error = typeof run.error === "string" ? run.error : "";
  const again = run.messages.length > 0 && !app.readOnly;
  const what = run.status === "failed" ? "The run failed" : "The run was interrupted before it was done";
  return (
    <div class="run-end" role="status">
      <Icon name="alert" size={17} />
      <p>
        {what}{error ? `: ${error}` : "."}
        {again && run.status === "interrupted" && " What it was asked is kept: “Go on” gives it to the agent again."}
      </p>
      {again && (
        <button type="button" class="button" disabled={session.busy.value.has("nudge")} onClick={() => void session.control("nudge")}>
          {run.status === "failed" ? "Try again" : "Go on"}
        </button>
      )}
    </div>
  );
}
