/** The time, coarse, for texts such as "5 min ago". */
import { signal } from "@preact/signals";

export const now = signal(Date.now());

export function startClock(): () => void {
  const timer = setInterval(() => { now.value = Date.now(); }, 20_000);
  return () => clearInterval(timer);
}

const DAY = 86_400_000;

/** How long ago `time` was, in as few characters as possible; a date when that is longer than a week. */
export function ago(time: string, at: number): string {
  const then = Date.parse(time);
  if (!Number.isFinite(then)) return "";
  const seconds = Math.max(0, Math.round((at - then) / 1_000));
  if (seconds < 45) return "now";
  if (seconds < 3_600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3_600)} h`;
  if (at - then < 7 * DAY) return `${Math.round(seconds / 86_400)} d`;
  return new Date(then).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** The time of day, with the date when it is not today's. */
export function timeOf(time: string, at: number): string {
  const then = new Date(time);
  if (Number.isNaN(then.getTime())) return "";
  const clock = then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return then.toDateString() === new Date(at).toDateString()
    ? clock : `${then.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${clock}`;
}

export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  const [value, unit] = count < 1_000_000 ? [count / 1_000, "kB"] : [count / 1_000_000, "MB"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}
