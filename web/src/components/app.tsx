/** The page: list, session, details; what pops up over them. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { App } from "../models/app";
import { titleOf } from "../models/titles";
import { Banner } from "./banner";
import { AppContext } from "./context";
import { useNoFileDrop } from "./file-drop";
import { Home } from "./home";
import { Bell, Toasts } from "./notices";
import { Panel } from "./panel";
import { CreatingView, SessionView } from "./session-view";
import { Sidebar } from "./sidebar";
import { TokenPage } from "./token-page";

/** From this width on, details stand beside the session; below they lie over it. */
const WIDE = "(min-width: 1080px)";
const PANEL_KEY = "session-hub.panel";

interface AppViewProps { app: App; onToken: (text: string) => void; onSignOut: () => void }

export function AppView({ app, onToken, onSignOut }: AppViewProps) {
  const link = app.link.value;
  if (link.kind === "refused") return <TokenPage refusal={link} onToken={onToken} />;
  return <AppContext.Provider value={app}><Layout app={app} onSignOut={onSignOut} /></AppContext.Provider>;
}

function Layout({ app, onSignOut }: { app: App; onSignOut: () => void }) {
  const list = useSignal(false);
  const panel = useSignal(matchMedia(WIDE).matches && storedPanel());
  const session = app.session.value;
  const context = app.route.context.value;
  const toggleList = (): void => { list.value = !list.value; };
  const togglePanel = (): void => {
    panel.value = !panel.value;
    if (matchMedia(WIDE).matches) storePanel(panel.value);
  };

  useNoFileDrop();
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      list.value = false;
      if (!matchMedia(WIDE).matches) panel.value = false;
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    if (!matchMedia(WIDE).matches) panel.value = false;
  }, [context]);

  return (
    <div class={`layout ${list.value ? "list-open" : ""} ${panel.value && session ? "panel-open" : ""}`} data-link={app.link.value.kind}>
      <PageTitle app={app} />
      <Sidebar onClose={() => { list.value = false; }} onSignOut={onSignOut} />
      <div class="stage">
        <Banner />
        {session ? <SessionView key={session.id} session={session} panelOpen={panel.value} onList={toggleList} onPanel={togglePanel} />
          : context !== null ? <CreatingView context={context} onList={toggleList} /> : <Home onList={toggleList} />}
      </div>
      {session && panel.value && <Panel key={session.id} session={session} onClose={togglePanel} />}
      <div class="scrim" onClick={() => { list.value = false; if (!matchMedia(WIDE).matches) panel.value = false; }} />
      <div class="corner"><Bell /></div>
      <Toasts />
    </div>
  );
}

function PageTitle({ app }: { app: App }) {
  const shown = app.session.value?.document.value;
  const unread = app.notices.unread.value;
  const title = `${unread > 0 ? `(${unread}) ` : ""}${shown ? `${titleOf(shown)} · ` : ""}Session Hub`;
  useEffect(() => { document.title = title; }, [title]);
  return null;
}

function storedPanel(): boolean {
  try {
    return localStorage.getItem(PANEL_KEY) !== "closed";
  } catch {
    return true;
  }
}

function storePanel(open: boolean): void {
  try {
    localStorage.setItem(PANEL_KEY, open ? "open" : "closed");
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}
