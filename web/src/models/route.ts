/** The address: `/` is the start, `/c/<id>` a session. */
import { signal, type ReadonlySignal } from "@preact/signals";

export class Route {
  #context = signal<string | null>(contextIn(location.pathname));
  #onPop = (): void => { this.#context.value = contextIn(location.pathname); };

  constructor() { addEventListener("popstate", this.#onPop); }

  /** The session that the address names, or null. */
  get context(): ReadonlySignal<string | null> { return this.#context; }

  go(context: string | null, options: { replace?: boolean } = {}): void {
    if (context === this.#context.peek()) return;
    const path = context === null ? "/" : pathOf(context);
    if (options.replace) history.replaceState(null, "", path);
    else history.pushState(null, "", path);
    this.#context.value = context;
  }

  dispose(): void { removeEventListener("popstate", this.#onPop); }
}

export function pathOf(context: string): string {
  return `/c/${encodeURIComponent(context)}`;
}

export function contextIn(path: string): string | null {
  const match = /^\/c\/([^/]+)\/?$/.exec(path);
  if (!match) return null;
  try {
    const id = decodeURIComponent(match[1] as string);
    return /^[A-Za-z0-9._:@-]{1,128}$/.test(id) ? id : null;
  } catch {
    return null;
  }
}
