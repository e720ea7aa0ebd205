import { signal } from "@preact/signals";
import { render } from "preact";
import { App } from "../models/app";
import { startClock } from "../models/clock";
import { dropToken, saveToken, takeToken, tokenInText } from "../models/token";
import { AppView } from "./app";
import { TokenPage } from "./token-page";

export interface Mounted {
  /** The models behind the page; null while there is no token. */
  readonly app: App | null;
  unmount(): void;
}

/** Put the page into `root`. */
export function mount(root: HTMLElement): Mounted {
  const app = signal<App | null>(null);
  const enter = (text: string): void => {
    const token = tokenInText(text);
    if (!token) return;
    saveToken(token);
    app.peek()?.dispose();
    app.value = new App(token);
  };
  const leave = (): void => {
    dropToken();
    app.peek()?.dispose();
    app.value = null;
  };
  // Another address in the same tab may bring another token.
  const onHash = (): void => { if (location.hash.startsWith("#token=")) enter(takeToken() ?? ""); };
  addEventListener("hashchange", onHash);
  const stopClock = startClock();
  const token = takeToken();
  if (token) app.value = new App(token);

  function Root() {
    return app.value ? <AppView app={app.value} onToken={enter} onSignOut={leave} /> : <TokenPage refusal={null} onToken={enter} />;
  }
  render(<Root />, root);
  return {
    get app() { return app.peek(); },
    unmount() {
      render(null, root);
      removeEventListener("hashchange", onHash);
      stopClock();
      app.peek()?.dispose();
    },
  };
}
