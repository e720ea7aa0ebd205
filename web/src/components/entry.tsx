/** One entry of the log, as its type wants it. */
import { useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Cell, LogModel } from "../models/log";
import { now, timeOf } from "../models/clock";
import type { Entry, EntryType } from "../wire";
import { Files, filesIn } from "./files";
import { Icon, type IconName } from "./icons";
import { Kvps } from "./kvps";
import { Markdown } from "./markdown";
import { memo } from "./memo";
import { StreamText } from "./stream-text";

type Look = "user" | "response" | "thought" | "note" | "callout" | "step" | "line";

const LOOKS: Record<EntryType, { look: Look; icon: IconName; label: string }> = {
  user: { look: "user", icon: "info", label: "You" },
  response: { look: "response", icon: "spark", label: "Response" },
  agent: { look: "thought", icon: "spark", label: "Agent" },
  info: { look: "note", icon: "info", label: "Info" },
  hint: { look: "callout", icon: "bulb", label: "Hint" },
  warning: { look: "callout", icon: "alert", label: "Warning" },
  error: { look: "callout", icon: "error", label: "Error" },
  input: { look: "callout", icon: "question", label: "Input" },
  progress: { look: "line", icon: "pulse", label: "Progress" },
  util: { look: "step", icon: "gear", label: "Utility" },
  tool: { look: "step", icon: "wrench", label: "Tool" },
  mcp: { look: "step", icon: "plug", label: "MCP" },
  code_exe: { look: "step", icon: "terminal", label: "Code" },
  browser: { look: "step", icon: "globe", label: "Browser" },
  subagent: { look: "step", icon: "branch", label: "Subagent" },
};

/** Lines, or characters, up to which a step's content is short enough to be shown at once. */
const SHORT_LINES = 6;
const SHORT_TEXT = 400;
/** Characters beyond which other plain texts are folded. */
const LONG_TEXT = 6_000;

export const EntryView = memo(function EntryView({ cell, log }: { cell: Cell; log: LogModel }) {
  const entry = cell.entry.value;
  const { look, icon, label } = LOOKS[entry.type] ?? LOOKS.info;
  return (
    <article class={`entry ${look} type-${entry.type}`} data-no={entry.no} data-id={entry.id} data-type={entry.type} aria-label={label}>
      {look === "user" ? <UserEntry entry={entry} />
        : look === "step" ? <StepEntry entry={entry} cell={cell} log={log} icon={icon} label={label} />
          : (
            <>
              <Mark icon={icon} />
              <div class="entry-body">
                <Heading entry={entry} fallback={look === "callout" && !entry.heading ? label : ""} />
                <Content entry={entry} rewrites={cell.rewrites} markdown={entry.type !== "error"} />
                <Kvps kvps={entry.kvps} />
                <Cut entry={entry} />
              </div>
            </>
          )}
    </article>
  );
});

function Mark({ icon }: { icon: IconName }) {
  return <div class="entry-mark"><Icon name={icon} size={16} /></div>;
}

function UserEntry({ entry }: { entry: Entry }) {
  return (
    <>
      <div class="bubble">
        {entry.content && <FoldedText text={entry.content} rewrites={0} />}
        <Files files={filesIn(entry.kvps["attachments"])} />
        <Cut entry={entry} />
      </div>
      <Time entry={entry} />
    </>
  );
}

function Heading({ entry, fallback }: { entry: Entry; fallback: string }) {
  const text = entry.heading || fallback;
  if (!text) return null;
  return <header class="entry-head"><h3>{text}</h3><Time entry={entry} /></header>;
}

function Time({ entry }: { entry: Entry }) {
  return <time class="entry-time" dateTime={entry.timestamp}>{timeOf(entry.timestamp, now.value)}</time>;
}

function Content({ entry, rewrites, markdown }: { entry: Entry; rewrites: number; markdown: boolean }) {
  if (!entry.content) return null;
  return markdown ? <Markdown text={entry.content} /> : <FoldedText text={entry.content} rewrites={rewrites} />;
}

function FoldedText({ text, rewrites }: { text: string; rewrites: number }) {
  const open = useSignal(false);
  if (text.length <= LONG_TEXT || open.value) return <StreamText text={text} rewrites={rewrites} />;
  return (
    <>
      <div class="plain">{text.slice(0, LONG_TEXT)}…</div>
      <button type="button" class="link" onClick={() => { open.value = true; }}>Show all {text.length.toLocaleString()} characters</button>
    </>
  );
}

function Cut({ entry }: { entry: Entry }) {
  return entry.cut ? <p class="cut">{entry.cut.toLocaleString()} more characters were cut off.</p> : null;
}

/** A step of the agent: a line that opens. The newest is open while it is the newest, unless the reader decided. */
function StepEntry({ entry, cell, log, icon, label }: { entry: Entry; cell: Cell; log: LogModel; icon: IconName; label: string }) {
  const chosen = useSignal<boolean | null>(null);
  const newest = useComputed(() => log.newest.value === cell.no);
  const pairs = Object.keys(entry.kvps).length;
  const short = isShort(entry.content) && pairs <= 4;
  const open = chosen.value ?? (short || newest.value);
  const empty = entry.content === "" && pairs === 0;
  const title: ComponentChildren = (
    <>
      <span class="entry-mark"><Icon name={icon} size={16} /></span>
      <span class="step-label">{label}</span>
      <span class="step-title">{entry.heading || firstLine(entry.content) || "…"}</span>
      <Time entry={entry} />
    </>
  );
  if (empty) return <div class="step-head">{title}</div>;
  return (
    <>
      <button type="button" class="step-head" aria-expanded={open} onClick={() => { chosen.value = !open; }}>
        {title}<span class="step-chevron"><Icon name="chevron" size={15} /></span>
      </button>
      {open && (
        <div class="step-body">
          {entry.content && <StreamText text={entry.content} rewrites={cell.rewrites} class="plain code" />}
          <Kvps kvps={entry.kvps} />
          <Cut entry={entry} />
        </div>
      )}
    </>
  );
}

function isShort(text: string): boolean {
  if (text.length > SHORT_TEXT) return false;
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0 && lines <= SHORT_LINES; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines <= SHORT_LINES;
}

function firstLine(text: string): string {
  const head = text.slice(0, 200);
  const end = head.indexOf("\n");
  return end < 0 ? head : head.slice(0, end);
}
