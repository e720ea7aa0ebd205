/** The bar over a session: name, state, and what can be done with it. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { SessionModel } from "../models/session";
import { titleOf } from "../models/titles";
import { IconButton } from "./button";
import { useApp } from "./context";
import { Confirm } from "./dialog";
import { Menu, type MenuItem } from "./menu";

export interface Chip { readonly text: string; readonly tone: string }

/** What a session is doing, in a word. */
export function chipOf(session: SessionModel): Chip | null {
  const run = session.run.value;
  if (session.closed.value !== null) return { text: "Ended", tone: "off" };
  if (session.paused.value) return { text: "Paused", tone: "paused" };
  switch (run?.status) {
    case "starting": return { text: "Starting", tone: "running" };
    case "running": return { text: "Running", tone: "running" };
    case "waiting": return { text: "Waiting", tone: "paused" };
    case "stopping": return { text: "Stopping", tone: "paused" };
    case "failed": return { text: "Failed", tone: "bad" };
    case "stopped": return { text: "Stopped", tone: "off" };
    case "interrupted": return { text: "Interrupted", tone: "bad" };
    case "finished": return { text: "Done", tone: "good" };
    default: return session.running.value ? { text: "Running", tone: "running" } : null;
  }
}

interface HeaderProps {
  session: SessionModel;
  panelOpen: boolean;
  onList: () => void;
  onPanel: () => void;
}

export function SessionHeader({ session, panelOpen, onList, onPanel }: HeaderProps) {
  const app = useApp();
  const confirm = useSignal<"remove" | "reset" | null>(null);
  const renaming = useSignal(false);
  const chip = chipOf(session);
  const { running, paused, busy } = session;
  const ended = session.closed.value !== null;
  const act = (action: "stop" | "pause" | "resume" | "nudge" | "reset") => () => void session.control(action);
  const may = !ended && !app.readOnly;
  const copyLink: MenuItem = { icon: "link", label: "Copy link", run: () => void navigator.clipboard?.writeText(location.href) };
  const items: MenuItem[] = app.readOnly ? [copyLink] : [
    { icon: "edit", label: "Rename", run: () => { renaming.value = true; }, disabled: ended },
    copyLink,
    { icon: "nudge", label: "Nudge", run: act("nudge"), disabled: ended },
    { icon: "retry", label: "Empty the log", run: () => { confirm.value = "reset"; }, disabled: ended },
    { icon: "trash", label: "Remove session", run: () => { confirm.value = "remove"; }, danger: true, disabled: ended },
  ];
  return (
    <header class="bar session-bar">
      <span class="only-narrow"><IconButton icon="menu" label="Sessions" onClick={onList} /></span>
      <div class="title-block">
        <Title session={session} renaming={renaming.value} onRename={(on) => { renaming.value = on; }} />
        {chip && <span class={`chip ${chip.tone}`} data-role="run-status">{chip.text}</span>}
      </div>
      <div class="bar-actions" role="toolbar" aria-label="Run">
        {may && (running.value || paused.value) && (
          <IconButton icon={paused.value ? "play" : "pause"} label={paused.value ? "Resume" : "Pause"}
            disabled={busy.value.has("pause") || busy.value.has("resume")} onClick={act(paused.value ? "resume" : "pause")} />
        )}
        {may && running.value && (
          <IconButton icon="stop" label="Stop" class="stop" disabled={busy.value.has("stop") || session.run.value?.status === "stopping"} onClick={act("stop")} />
        )}
        <Menu label="More actions" items={items} />
        <IconButton icon="panel" label={panelOpen ? "Hide details" : "Show details"} pressed={panelOpen} onClick={onPanel} />
      </div>
      {confirm.value === "remove" && (
        <Confirm title="Remove this session?" text="Its log, its state and its results are deleted for everybody. This cannot be undone."
          action="Remove" onConfirm={() => void app.remove(session.id)} onClose={() => { confirm.value = null; }} />
      )}
      {confirm.value === "reset" && (
        <Confirm title="Empty the log?" text="The run is ended and all entries are deleted. Name, state, results and waiting messages stay."
          action="Empty" onConfirm={act("reset")} onClose={() => { confirm.value = null; }} />
      )}
    </header>
  );
}

function Title({ session, renaming, onRename }: { session: SessionModel; renaming: boolean; onRename: (on: boolean) => void }) {
  const app = useApp();
  const input = useRef<HTMLInputElement>(null);
  const document = session.document.value;
  const title = document ? titleOf(document) : (titleOrEmpty(app.sessions.get(session.id)) || session.id);
  // Taking the field away makes it lose the focus as well: what it says counts once, and not at all after Escape.
  const finish = (keep: boolean): void => {
    const name = (keep && input.current?.value.replace(/\s+/g, " ").trim()) || "";
    input.current = null;
    onRename(false);
    if (name && name !== session.name.value) void session.rename(name);
  };
  if (renaming) {
    return (
      <input class="title-input" aria-label="Name of the session" maxLength={200} defaultValue={session.name.value ?? ""}
        ref={(element) => { if (element && element !== input.current) { input.current = element; element.select(); } }}
        onBlur={() => finish(true)}
        onKeyDown={(event) => {
          if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
          event.preventDefault();
          finish(event.key === "Enter");
        }} />
    );
  }
  return (
    <h1 class="title" title={title}>
      <button type="button" onClick={() => onRename(true)} disabled={session.closed.value !== null || app.readOnly} aria-label={`${title}, rename`}>{title}</button>
    </h1>
  );
}

function titleOrEmpty(row: { name: string; no: number } | undefined): string {
  return row ? titleOf(row) : "";
}
