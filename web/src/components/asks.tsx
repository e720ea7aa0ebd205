/** Questions of the agent that wait for an answer, oldest first. */
import { useSignal } from "@preact/signals";
import { now, timeOf } from "../models/clock";
import type { SessionModel } from "../models/session";
import type { Ask, HubDocument, Json } from "../wire";
import { useApp } from "./context";
import { Icon } from "./icons";
import { memo } from "./memo";

/** The questions that are open, each with its id. */
export function openAsks(asks: HubDocument["asks"]): [string, Ask][] {
  const open = Object.entries(asks).filter(([, ask]) => ask.status === "open");
  return open.sort(([, a], [, b]) => (a.asked_at < b.asked_at ? -1 : 1));
}

/** An option as a button says it. */
export function said(option: Json): string {
  return typeof option === "string" ? option : JSON.stringify(option);
}

export function Asks({ session }: { session: SessionModel }) {
  if (session.closed.value !== null) return null;
  const open = openAsks(session.asks.value ?? {});
  if (open.length === 0) return null;
  return <div class="asks">{open.map(([id, ask]) => <AskCard key={id} id={id} ask={ask} session={session} />)}</div>;
}

const AskCard = memo(function AskCard({ id, ask, session }: { id: string; ask: Ask; session: SessionModel }) {
  const { readOnly } = useApp();
  const busy = session.busy.value.has(`ask.${id}`);
  const answer = (value: Json): void => void session.answer(id, value);
  const until = ask.expires_at;
  const late = until !== null && Date.parse(until) <= now.value;
  return (
    <section class="ask" aria-label="A question of the agent" data-ask={id}>
      <Icon name="question" size={17} />
      <div class="ask-body">
        <p class="ask-question">{ask.question}</p>
        {readOnly ? <p class="ask-note">Somebody who may write here answers it.</p>
          : late ? null
          : ask.options ? (
            <div class="ask-options">
              {ask.options.map((option, at) => (
                <button key={at} type="button" class="button" disabled={busy} onClick={() => answer(option)}>{said(option)}</button>
              ))}
            </div>
          ) : <AskText busy={busy} onAnswer={answer} />}
        {until !== null ? <p class="ask-note">{late ? "The time for an answer is over." : `An answer is taken until ${timeOf(until, now.value)}.`}</p> : null}
      </div>
    </section>
  );
});

function AskText({ busy, onAnswer }: { busy: boolean; onAnswer: (text: string) => void }) {
  const text = useSignal("");
  const send = (event: Event): void => {
    event.preventDefault();
    if (text.value.trim()) onAnswer(text.value.trim());
  };
  return (
    <form class="ask-text" onSubmit={send}>
      <input aria-label="Answer" placeholder="Answer" value={text.value} autocomplete="off" onInput={(event) => { text.value = event.currentTarget.value; }} />
      <button type="submit" class="button primary" disabled={busy || text.value.trim() === ""}>Answer</button>
    </form>
  );
}
