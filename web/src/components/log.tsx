/** The log of a session. See log-window.ts for what of it is on the page. */
import { untracked, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Cell, LogModel } from "../models/log";
import { EntryView } from "./entry";
import { Icon } from "./icons";
import { CHUNK, LogWindow } from "./log-window";
import { memo } from "./memo";

interface LogViewProps {
  log: LogModel;
  /** Goes to the end whenever this moves. */
  toEnd: ReadonlySignal<number>;
  children?: ComponentChildren;
}

export function LogView({ log, toEnd, children }: LogViewProps) {
  const view = useMemo(() => new LogWindow(log), [log]);
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);

  useLayoutEffect(() => view.attach(scroller.current as HTMLElement, content.current as HTMLElement), [view]);
  useSignalEffect(() => {
    void log.structure.value;
    untracked(() => view.update());
  });
  useSignalEffect(() => {
    void toEnd.value;
    untracked(() => view.toEnd());
  });
  useLayoutEffect(() => view.rendered());

  const chunks = [];
  void log.structure.value;
  for (let chunk = view.firstChunk.value; chunk <= view.lastChunk.value; chunk++) {
    const from = Math.max(0, chunk * CHUNK - log.first);
    const to = Math.max(from, (chunk + 1) * CHUNK - log.first);
    const cells = log.cells.slice(from, to);
    if (cells.length > 0) chunks.push(<Chunk key={chunk} cells={cells} signature={signatureOf(cells)} log={log} />);
  }
  const older = log.older.value;
  return (
    <div class="log-frame">
      <div class="log" ref={scroller} role="log" aria-label="Conversation" aria-live="polite" aria-busy={older === "loading"} tabIndex={0}
        data-first={log.first} data-entries={log.cells.length}>
        <div class="log-content" ref={content}>
          {older === "loading" && <p class="log-older" role="status"><span class="spinner" /> Older entries…</p>}
          {older === "failed" && (
            <p class="log-older"><button type="button" class="link" onClick={() => void log.loadOlder()}>Older entries could not be read. Try again</button></p>
          )}
          {older === "none" && log.cells.length > CHUNK && <p class="log-older">Start of the log</p>}
          {older === "gone" && <p class="log-older">Older entries are not kept any more</p>}
          {chunks}
          {children}
        </div>
      </div>
      {!view.following.value && (
        <button type="button" class="to-end" onClick={() => view.toEnd()}>
          <Icon name="down" size={16} />{view.unseen.value > 0 ? `${view.unseen.value.toLocaleString()} new` : "Latest"}
        </button>
      )}
    </div>
  );
}

/** The same cells have the same signature: a chunk whose entries did not change in number is not rendered again. */
function signatureOf(cells: readonly Cell[]): string {
  return `${cells[0]?.id} ${cells.at(-1)?.id} ${cells.length}`;
}

interface ChunkProps { cells: readonly Cell[]; signature: string; log: LogModel }

function Chunk({ cells, signature, log }: ChunkProps) {
  // The slice is another array at each rendering; the one kept here is the same as long as its cells are.
  const held = useMemo(() => cells, [signature, log]);
  return <Cells cells={held} log={log} />;
}

const Cells = memo(function Cells({ cells, log }: { cells: readonly Cell[]; log: LogModel }) {
  return <div class="log-chunk">{cells.map((cell) => <EntryView key={cell.id} cell={cell} log={log} />)}</div>;
});
