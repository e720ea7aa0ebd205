/** The start: nothing is open yet, and a first message makes a session. */
import { useSignal } from "@preact/signals";
import { useApp } from "./context";
import { Composer, TOUCH } from "./composer";
import { IconButton } from "./button";
import { Logo } from "./icons";

export function Home({ onList }: { onList: () => void }) {
  const app = useApp();
  return (
    <main class="main home">
      <header class="bar"><span class="only-narrow"><IconButton icon="menu" label="Sessions" onClick={onList} /></span></header>
      <section class="home-body">
        <Logo size={52} />
        {app.readOnly ? (
          <>
            <h1>Open a session to read it</h1>
            <p>Your access is read only: you can open the sessions in the list and follow them, but not write to them.</p>
          </>
        ) : <Start />}
      </section>
    </main>
  );
}

function Start() {
  const app = useApp();
  const agents = app.agents;
  const chosen = useSignal<string | null>(null);
  const agent = chosen.value !== null && agents.includes(chosen.value) ? chosen.value : (agents[0] ?? "demo");
  const placeholder = matchMedia(TOUCH).matches ? "Write to the agent" : "Write to the agent, or drop a file here";
  return (
    <>
      <h1>What should be looked at?</h1>
      <p>Paste or attach a text, a CSV or a server log, and watch the agent work through it. Or open a session from the list.</p>
      <Composer draft={app.draft(null)} placeholder={placeholder} autofocus onSend={(first) => app.create(agent, first)}>
        {agents.length > 1 && (
          <select aria-label="Agent" value={agent} onChange={(event) => { chosen.value = event.currentTarget.value; }}>
            {agents.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        )}
      </Composer>
    </>
  );
}
