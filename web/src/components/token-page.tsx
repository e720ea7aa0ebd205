/** Shown without a token, and when the hub refused the one there is. */
import { useRef } from "preact/hooks";
import { Logo } from "./icons";

export function TokenPage({ reason, onToken }: { reason: string | null; onToken: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <main class="token-page">
      <section class="card" aria-labelledby="token-title">
        <Logo size={44} />
        <h1 id="token-title">{reason === null ? "A token is needed" : "The hub refused this token"}</h1>
        {reason !== null && <p class="bad-text" role="alert">{reason}</p>}
        <p>
          Open the address that <code>session-hub serve</code> printed when it started. It ends in <code>#token=…</code>. Or paste that
          address, or the token alone, here. The operator's token is also in the file <code>token</code> in the hub's data folder.
        </p>
        <form onSubmit={(event) => { event.preventDefault(); onToken(input.current?.value ?? ""); }}>
          <input ref={input} type="password" name="token" autocomplete="off" placeholder="Address or token" aria-label="Address or token" required />
          <button type="submit" class="button primary">Continue</button>
        </form>
      </section>
    </main>
  );
}
