/** The list of sessions. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { ago, now } from "../models/clock";
import { pathOf } from "../models/route";
import { titleOf } from "../models/titles";
import type { ContextRow } from "../wire";
import { IconButton } from "./button";
import { useApp } from "./context";
import { Icon, Logo } from "./icons";
import { memo } from "./memo";
import { Menu } from "./menu";

/** Rows on the page at first; more come as the list is scrolled. */
const STEP = 100;

export function Sidebar({ onClose, onSignOut }: { onClose: () => void; onSignOut: () => void }) {
  const app = useApp();
  const { sessions } = app;
  const limit = useSignal(STEP);
  const list = useRef<HTMLElement>(null);
  const rows = sessions.shown.value;
  const open = app.route.context.value;
  const agents = app.agents;
  const create = (agent: string): void => {
    onClose();
    // One that nobody has used or named yet is as good as a new one.
    if (app.session.peek()?.isUnused(agent)) document.querySelector<HTMLElement>(".composer textarea")?.focus();
    else app.create(agent);
  };
  const onScroll = (): void => {
    const element = list.current;
    if (!element || element.scrollHeight - element.scrollTop - element.clientHeight > 400) return;
    if (limit.value < rows.length) limit.value += STEP;
    else if (sessions.filter.value === "") void sessions.loadMore();
  };
  return (
    <nav class="sidebar" aria-label="Sessions">
      <header class="sidebar-head">
        <a class="brand" href="/" onClick={(event) => { event.preventDefault(); app.route.go(null); onClose(); }}>
          <Logo /><span>Session Hub</span>
        </a>
        <span class="only-phone"><IconButton icon="close" label="Close the list" onClick={onClose} /></span>
      </header>
      {!app.readOnly && <div class="sidebar-tools">
        <button type="button" class="button primary new-session" onClick={() => create(agents[0] ?? "demo")}>
          <Icon name="plus" />New session
        </button>
        {agents.length > 1 && (
          <Menu label="Choose an agent" items={agents.map((agent) => ({ icon: "spark" as const, label: `New with ${agent}`, run: () => create(agent) }))} />
        )}
      </div>}
      <label class="search">
        <Icon name="search" size={16} />
        <input type="search" placeholder="Find a session" aria-label="Find a session" value={sessions.filter.value}
          onInput={(event) => {
            limit.value = STEP;
            list.current?.scrollTo(0, 0);
            void sessions.search(event.currentTarget.value);
          }} />
      </label>
      <section class="session-list" ref={list} onScroll={onScroll} aria-label="List of sessions">
        {!sessions.loaded.value && <SidebarWaiting />}
        {sessions.loaded.value && rows.length === 0 && (
          <p class="empty">{sessions.filter.value === "" ? "No sessions yet." : sessions.more.value === "loading" ? "Searching…" : "Nothing matches."}</p>
        )}
        <ul>{rows.slice(0, limit.value).map((row) => <SessionRow key={row.id} row={row} open={row.id === open} onOpen={onClose} />)}</ul>
        {sessions.more.value === "loading" && <p class="empty"><span class="spinner" /></p>}
        {(sessions.more.value === "idle" || sessions.more.value === "failed") && limit.value >= rows.length && (
          <p class="empty"><button type="button" class="link" onClick={() => void sessions.loadMore()}>
            {sessions.more.value === "failed" ? "That failed. Try again" : "Older sessions"}
          </button></p>
        )}
      </section>
      <WhoAmI onSignOut={onSignOut} />
    </nav>
  );
}

function WhoAmI({ onSignOut }: { onSignOut: () => void }) {
  const hello = useApp().hello.value;
  if (!hello) return null;
  const who = hello.sub && hello.sub !== hello.role ? `${hello.sub} · ${hello.role}` : hello.role;
  return (
    <footer class="sidebar-foot">
      <span class="who" title={`Signed in as ${who}`}>{who}</span>
      <button type="button" class="link" onClick={onSignOut}>Sign out</button>
    </footer>
  );
}

function SidebarWaiting() {
  const { sessions } = useApp();
  const refused = sessions.refused.value;
  if (refused) return <p class="empty">{refused.message}</p>;
  return <ul class="skeleton" aria-hidden="true">{[1, 2, 3, 4].map((at) => <li key={at} />)}</ul>;
}

const SessionRow = memo(function SessionRow({ row, open, onOpen }: { row: ContextRow; open: boolean; onOpen: () => void }) {
  const app = useApp();
  const state = row.paused ? "paused" : row.running ? "running" : "";
  return (
    <li>
      <a class={`session-row ${open ? "open" : ""}`} href={pathOf(row.id)} data-id={row.id} {...(open && { "aria-current": "page" as const })}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          app.route.go(row.id);
          onOpen();
        }}>
        <span class={`dot ${state}`} title={state} />
        <span class="session-name">{titleOf(row)}</span>
        <time dateTime={row.last_message}>{ago(row.last_message, now.value)}</time>
        {(state || row.type !== "user" || row.agent) && (
          <span class="session-meta">
            {state && <span class={`state-text ${state}`}>{state}</span>}
            {row.type !== "user" && <span class="tag">{row.type}</span>}
            {row.agent && <span>{row.agent}</span>}
          </span>
        )}
      </a>
    </li>
  );
});
