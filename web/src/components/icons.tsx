/** Line icons on a 24 by 24 grid; decorative, so that what uses one carries the label. */
import type { ComponentChild } from "preact";

const shapes = {
  menu: <path d="M4 7h16M4 12h16M4 17h16" />,
  plus: <path d="M12 5v14M5 12h14" />,
  close: <path d="M6 6l12 12M18 6L6 18" />,
  search: <><circle cx="11" cy="11" r="6.5" /><path d="M16 16l4.5 4.5" /></>,
  send: <path d="M12 19V5M6 11l6-6 6 6" />,
  attach: <path d="M19 11.5l-7.4 7.4a4.7 4.7 0 0 1-6.6-6.6l7.8-7.8a3.1 3.1 0 0 1 4.4 4.4l-7.7 7.7a1.6 1.6 0 0 1-2.2-2.2l7-7" />,
  stop: <rect x="6.5" y="6.5" width="11" height="11" rx="2" fill="currentColor" />,
  pause: <path d="M9 6v12M15 6v12" />,
  play: <path d="M8 5.5v13l10.5-6.5z" fill="currentColor" />,
  nudge: <path d="M13 3L5.5 13.5H12L11 21l7.5-10.5H12z" />,
  more: <><circle cx="5.5" cy="12" r="1.2" fill="currentColor" /><circle cx="12" cy="12" r="1.2" fill="currentColor" /><circle cx="18.5" cy="12" r="1.2" fill="currentColor" /></>,
  panel: <><rect x="3.5" y="5" width="17" height="14" rx="2.5" /><path d="M14.5 5v14" /></>,
  bell: <path d="M6 10a6 6 0 0 1 12 0c0 5 2 6.5 2 6.5H4S6 15 6 10zM10 20a2.2 2.2 0 0 0 4 0" />,
  edit: <path d="M5 19l.8-3.7L16 5.1a1.9 1.9 0 0 1 2.7 0l.2.2a1.9 1.9 0 0 1 0 2.7L8.7 18.2z" />,
  trash: <path d="M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 11v5M13.5 11v5" />,
  check: <path d="M5 12.5l4.5 4.5L19 7.5" />,
  chevron: <path d="M9 6l6 6-6 6" />,
  down: <path d="M12 5v14M6 13l6 6 6-6" />,
  file: <path d="M13.5 3.5H7A1.5 1.5 0 0 0 5.5 5v14A1.5 1.5 0 0 0 7 20.5h10a1.5 1.5 0 0 0 1.5-1.5V8.5zM13.5 3.5v5h5" />,
  copy: <><rect x="8.5" y="8.5" width="11" height="11" rx="2" /><path d="M5 15.5H4.5V6A1.5 1.5 0 0 1 6 4.5h9.5V5" /></>,
  retry: <path d="M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4" />,
  link: <path d="M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.7l1-1" />,
  spark: <path d="M12 3.5l1.9 5.6L19.5 11l-5.6 1.9L12 18.5l-1.9-5.6L4.5 11l5.6-1.9zM19 17v4M17 19h4" />,
  terminal: <><rect x="3.5" y="4.5" width="17" height="15" rx="2.5" /><path d="M7.5 9.5l3 2.5-3 2.5M12.5 15h4" /></>,
  wrench: <path d="M14.5 6.5a4.5 4.5 0 0 1 5.3-1l-3 3 1.7 1.7 3-3a4.5 4.5 0 0 1-6.2 5.5L8 20a2.1 2.1 0 0 1-3-3l7.3-7.3a4.5 4.5 0 0 1 2.2-3.2z" />,
  globe: <><circle cx="12" cy="12" r="8.5" /><path d="M3.5 12h17M12 3.5c5 5 5 12 0 17M12 3.5c-5 5-5 12 0 17" /></>,
  branch: <><circle cx="7" cy="6" r="2.2" /><circle cx="7" cy="18" r="2.2" /><circle cx="17" cy="8" r="2.2" /><path d="M7 8.2v7.6M17 10.2c0 4-6 2.8-9 6" /></>,
  info: <><circle cx="12" cy="12" r="8.5" /><path d="M12 11v5M12 8v.01" /></>,
  bulb: <path d="M9.5 17.5h5M10 20.5h4M9.5 17.5c0-3-3.5-4-3.5-8a6 6 0 0 1 12 0c0 4-3.5 5-3.5 8" />,
  alert: <path d="M12 4.5L3.5 19h17zM12 10v4M12 16.5v.01" />,
  error: <><circle cx="12" cy="12" r="8.5" /><path d="M9 9l6 6M15 9l-6 6" /></>,
  plug: <path d="M9 3.5V8M15 3.5V8M6.5 8h11v3a5.5 5.5 0 0 1-11 0zM12 16.5v4" />,
  pulse: <path d="M3.5 12h4l2.5-6 4 12 2.5-6h4" />,
  gear: <><circle cx="12" cy="12" r="3" /><path d="M12 3.5v3M12 17.5v3M3.5 12h3M17.5 12h3M6 6l2.1 2.1M15.9 15.9L18 18M18 6l-2.1 2.1M8.1 15.9L6 18" /></>,
  question: <><circle cx="12" cy="12" r="8.5" /><path d="M9.5 9.5a2.5 2.5 0 1 1 3.6 2.3c-.8.4-1.1.9-1.1 1.7M12 16.5v.01" /></>,
} satisfies Record<string, ComponentChild>;

export type IconName = keyof typeof shapes;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      {shapes[name]}
    </svg>
  );
}

/** The mark of the product: one point, many that follow it. */
export function Logo({ size = 26 }: { size?: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect class="logo-ground" width="32" height="32" rx="9" />
      <g class="logo-lines" fill="none" stroke-width="2" stroke-linecap="round">
        <path d="M16 16L8.5 9.5M16 16l8-5.5M16 16l-5.5 8M16 16l7.5 6.5" />
      </g>
      <g class="logo-points">
        <circle cx="16" cy="16" r="4" /><circle cx="8.5" cy="9.5" r="2.2" /><circle cx="24" cy="10.5" r="2.2" />
        <circle cx="10.5" cy="24" r="2.2" /><circle cx="23.5" cy="22.5" r="2.2" />
      </g>
    </svg>
  );
}
