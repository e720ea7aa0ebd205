/** Details of a session: goal and plan, progress, summary, results, state, run. */
import type { ComponentChildren } from "preact";
import { now, timeOf } from "../models/clock";
import type { SessionModel } from "../models/session";
import { WHEN_BUSY, type Json, type SessionContext, type WhenBusy } from "../wire";
import { IconButton } from "./button";
import { useApp } from "./context";
import { Icon } from "./icons";
import { JsonTree } from "./json-tree";
import { Markdown } from "./markdown";
import { memo } from "./memo";

export function Panel({ session, onClose }: { session: SessionModel; onClose: () => void }) {
  const context = session.plan.value ?? {};
  const nothing = session.document.value !== null && Object.keys(context).length === 0
    && isEmpty(session.state.value) && isEmpty(session.output.value) && session.run.value === null;
  return (
    <aside class="panel" aria-label="Details">
      <header class="bar panel-bar">
        <h2>Details</h2>
        <IconButton icon="close" label="Hide details" onClick={onClose} />
      </header>
      <div class="panel-body">
        {nothing && <p class="empty">Goal, plan, state and results show up here once the agent works.</p>}
        <Plan context={context} live={session.running.value === true && session.paused.value !== true} />
        <DataSection title="Results" name="output" value={session.output.value} />
        <DataSection title="State" name="state" value={session.state.value} />
        <RunSection session={session} />
      </div>
    </aside>
  );
}

/** `live`: a run is at work, so that its active step moves. */
const Plan = memo(function Plan({ context, live }: { context: SessionContext; live: boolean }) {
  const { goal, plan = [], progress = [], summary } = context;
  const done = plan.filter((step) => step.status === "done").length;
  return (
    <>
      {goal && <Section title="Goal" name="goal"><p class="goal">{goal}</p></Section>}
      {plan.length > 0 && (
        <Section title="Plan" name="plan" note={`${done} of ${plan.length}`}>
          <progress class="plan-progress" value={done} max={plan.length} aria-label="Steps done" />
          <ol class="plan">
            {plan.map((step, at) => (
              <li key={at} class={`step-${step.status}`} data-status={step.status}>
                <span class="step-mark">{step.status === "done" ? <Icon name="check" size={13} /> : step.status === "active" ? <span class={`pulse ${live ? "live" : ""}`} /> : at + 1}</span>
                <span>{step.text}</span>
                <span class="visually-hidden">{step.status}</span>
              </li>
            ))}
          </ol>
        </Section>
      )}
      {progress.length > 0 && (
        <Section title="Completed" name="completed" note={String(progress.length)}>
          <ul class="done-list">{progress.map((text, at) => <li key={at}><Icon name="check" size={14} /><span>{text}</span></li>)}</ul>
        </Section>
      )}
      {summary && <Section title="Summary" name="summary"><Markdown text={summary} /></Section>}
    </>
  );
});

const DataSection = memo(function DataSection({ title, name, value }: { title: string; name: string; value: { [key: string]: Json } | null }) {
  if (isEmpty(value)) return null;
  return <Section title={title} name={name} note={String(Object.keys(value ?? {}).length)}><JsonTree value={value} /></Section>;
});

const BUSY_LABELS: { readonly [name in WhenBusy]: string } = {
  queue: "Messages wait", interrupt: "Messages stop the run", reject: "Messages are refused", replace: "The last message counts",
};

function WhenBusyChoice({ session }: { session: SessionModel }) {
  const { readOnly } = useApp();
  const chosen = session.document.value?.when_busy ?? "queue";
  if (readOnly) return <>{BUSY_LABELS[chosen]}</>;
  return (
    <select class="choice" aria-label="While the agent works" value={chosen} disabled={session.busy.value.has("when_busy")}
      onChange={(event) => void session.setWhenBusy(event.currentTarget.value as WhenBusy)}>
      {WHEN_BUSY.map((name) => <option key={name} value={name}>{BUSY_LABELS[name]}</option>)}
    </select>
  );
}

function RunSection({ session }: { session: SessionModel }) {
  const run = session.run.value;
  const document = session.document.value;
  if (!document) return null;
  const facts: [string, ComponentChildren][] = [
    ...(run ? [
      ["Status", run.status], ["Agent", run.agent], ["Attempt", run.attempt > 1 ? run.attempt : null],
      ["Started", timeOf(run.started_at, now.value)], ["Ended", run.ended_at ? timeOf(run.ended_at, now.value) : null],
      ["Worker", run.worker],
      ["Error", run.error ? <span class="bad-text">{typeof run.error === "string" ? run.error : JSON.stringify(run.error)}</span> : null],
    ] as [string, ComponentChildren][] : [["Agent", document.agent]] as [string, ComponentChildren][]),
    ["When busy", <WhenBusyChoice session={session} />],
    ["Session", <code>{document.id}</code>],
    ["Owner", document.user_id],
    ["Created", timeOf(document.created_at, now.value)],
    ["Entries", document.log.length.toLocaleString()],
  ];
  return (
    <Section title="Run" name="run">
      <dl class="facts">
        {facts.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([label, value]) => (
          <div key={label}><dt>{label}</dt><dd>{value}</dd></div>
        ))}
      </dl>
    </Section>
  );
}

function Section({ title, name, note, children }: { title: string; name: string; note?: string; children: ComponentChildren }) {
  return (
    <details class="section" open data-section={name}>
      <summary><Icon name="chevron" size={14} /><h3>{title}</h3>{note && <span class="note-count">{note}</span>}</summary>
      <div class="section-body">{children}</div>
    </details>
  );
}

function isEmpty(value: object | null): boolean {
  return value === null || Object.keys(value).length === 0;
}
