/** Shown without a token, and when the hub refused this client for good. */
import { useRef } from "preact/hooks";
import { Logo } from "./icons";

export interface Refusal { readonly code: number; readonly reason: string }

/** The hub's codes that say that another token may do: bad token, not allowed. */
const TOKEN_CODES = new Set([4500, 4507]);

interface TokenPageProps { refusal: Refusal | null; onToken: (text: string) => void }

export function TokenPage({ refusal, onToken }: TokenPageProps) {
  const input = useRef<HTMLInputElement>(null);
  if (refusal !== null && !TOKEN_CODES.has(refusal.code)) {
    return (
      <main class="token-page">
        <section class="card" aria-labelledby="token-title">
          <Logo size={44} />
          <h1 id="token-title">The hub ended this connection</h1>
          <p class="bad-text" role="alert">{refusal.reason}</p>
          <p>The page does not try again by itself. Nothing that the hub has answered is lost.</p>
          <button type="button" class="button primary" onClick={() => location.reload()}>Try again</button>
        </section>
      </main>
    );
  }
  return (
    <main class="token-page">
      <section class="card" aria-labelledby="token-title">
        <Logo size={44} />
        <h1 id="token-title">{refusal === null ? "A link or token is needed" : "This link or token is not valid"}</h1>
        {refusal !== null && <p class="bad-text" role="alert">{refusal.reason}</p>}
        <p>
          {refusal === null
            ? <>Open the link that you were given; it ends in <code>#token=…</code>. Or paste it, or the token alone, here.</>
            : "A link may have run out, and it works for its own hub only. If somebody gave you yours, ask them for a new link, and open or paste it here."}
        </p>
        <form onSubmit={(event) => { event.preventDefault(); onToken(input.current?.value ?? ""); }}>
          <input ref={input} type="password" name="token" autocomplete="off" placeholder="Address or token" aria-label="Address or token" required />
          <button type="submit" class="button primary">Continue</button>
        </form>
        <p class="card-note">
          You started this hub? Its address was printed when it started; the operator's token is also in the file <code>token</code> in
          its data folder, and <code>session-hub token</code> makes tokens for others.
        </p>
      </section>
    </main>
  );
}
