/** The token: comes with the address as `#token=...`, stays in this browser, and leaves the address bar at once. */

const KEY = "session-hub.token";

export function takeToken(): string | null {
  const inAddress = tokenIn(location.hash);
  if (inAddress !== null) {
    saveToken(inAddress);
    history.replaceState(history.state, "", location.pathname + location.search);
    return inAddress;
  }
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function tokenIn(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get("token") || null;
}

/** The token in what a user pasted: the bare token, or the whole address that the hub printed. */
export function tokenInText(text: string): string {
  const trimmed = text.trim();
  const at = trimmed.indexOf("#");
  return (at >= 0 ? tokenIn(trimmed.slice(at)) : null) ?? trimmed;
}

export function saveToken(token: string): void {
  try {
    localStorage.setItem(KEY, token);
  } catch {
    // Without storage the token lasts as long as the page.
  }
}

export function dropToken(): void {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // Then it was not stored either.
  }
}
