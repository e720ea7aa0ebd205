/** Notices: a bell with a list, and those that pop up. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ago, now } from "../models/clock";
import type { NoticeRow, NoticeType } from "../wire";
import { IconButton } from "./button";
import { useApp } from "./context";
import { Icon, type IconName } from "./icons";
import { memo } from "./memo";

const ICONS: Record<NoticeType, IconName> = { info: "info", success: "check", warning: "alert", error: "error", progress: "pulse" };

export function Bell() {
  const { notices } = useApp();
  const open = useSignal(false);
  const fresh = useSignal<ReadonlySet<string>>(new Set());
  const root = useRef<HTMLDivElement>(null);
  const unread = notices.unread.value;

  useEffect(() => {
    if (!open.value) return;
    const close = (event: Event): void => { if (!root.current?.contains(event.target as Node)) open.value = false; };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [open.value]);

  const toggle = (): void => {
    open.value = !open.value;
    if (!open.value) return;
    fresh.value = new Set(notices.rows.value.map((row) => row.id).filter((id) => !notices.read.value.has(id)));
    notices.markAllRead();
    for (const toast of notices.toasts.value) notices.dismiss(toast.id);
  };
  return (
    <div class="bell" ref={root} onKeyDown={(event) => { if (event.key === "Escape") open.value = false; }}>
      <IconButton icon="bell" label={unread > 0 ? `Notices, ${unread} unread` : "Notices"} expanded={open.value} onClick={toggle}>
        {unread > 0 && <span class="badge" data-role="unread">{unread > 99 ? "99+" : unread}</span>}
      </IconButton>
      {open.value && (
        <div class="bell-list" role="dialog" aria-label="Notices">
          <h2>Notices</h2>
          {notices.rows.value.length === 0 && <p class="empty">There are none.</p>}
          <ul>{notices.rows.value.map((row) => <NoticeItem key={row.id} row={row} fresh={fresh.value.has(row.id)} onOpen={() => { open.value = false; }} />)}</ul>
        </div>
      )}
    </div>
  );
}

const NoticeItem = memo(function NoticeItem({ row, fresh, onOpen }: { row: NoticeRow; fresh: boolean; onOpen: () => void }) {
  return (
    <li class={`notice ${row.type} ${fresh ? "fresh" : ""}`} data-id={row.id}>
      <NoticeMark type={row.type} />
      <div>
        {row.title && <h3>{row.title}</h3>}
        <p>{row.message}</p>
        {row.detail && <p class="notice-detail">{row.detail}</p>}
        <p class="notice-meta">
          <span>{row.source === "operator" ? "Operator" : "Session"}</span>
          <time dateTime={row.created_at}>{ago(row.created_at, now.value)}</time>
          <OpenSession row={row} onOpen={onOpen} />
        </p>
      </div>
    </li>
  );
});

function OpenSession({ row, onOpen }: { row: NoticeRow; onOpen: () => void }) {
  const app = useApp();
  const { context } = row;
  if (!context || app.route.context.value === context) return null;
  return <button type="button" class="link" onClick={() => { app.route.go(context); onOpen(); }}>Open session</button>;
}

function NoticeMark({ type }: { type: NoticeType }) {
  return <span class="notice-mark">{type === "progress" ? <span class="spinner" /> : <Icon name={ICONS[type] ?? "info"} size={17} />}</span>;
}

export function Toasts() {
  const app = useApp();
  const { notices } = app;
  return (
    <div class="toasts">
      {notices.toasts.value.slice(-4).map((row) => (
        <div key={row.id} class={`toast notice ${row.type}`} role={row.type === "error" ? "alert" : "status"} data-id={row.id}
          onPointerEnter={() => notices.hold(row.id)} onPointerLeave={() => notices.release(row.id)}>
          <NoticeMark type={row.type} />
          <div>
            {row.title && <h3>{row.title}</h3>}
            <p>{row.message}</p>
            <OpenSession row={row} onOpen={() => notices.dismiss(row.id)} />
          </div>
          <IconButton icon="close" label="Dismiss" size={15} onClick={() => { notices.markRead([row.id]); notices.dismiss(row.id); }} />
        </div>
      ))}
      {app.problems.value.map((problem) => (
        <div key={`problem ${problem.no}`} class="toast notice error" role="alert">
          <NoticeMark type="error" />
          <p>{problem.text}</p>
          <IconButton icon="close" label="Dismiss" size={15} onClick={() => app.forget(problem.no)} />
        </div>
      ))}
    </div>
  );
}
