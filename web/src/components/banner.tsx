/** How the connection is, when it is not simply there. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useApp } from "./context";
import { Icon } from "./icons";

/** A reconnection that takes less is not worth a word, in milliseconds. */
const QUIET = 800;

export function Banner() {
  const app = useApp();
  const link = app.link.value;
  const patient = useSignal(true);
  const down = link.kind !== "online";
  useEffect(() => {
    patient.value = true;
    if (!down) return;
    const timer = setTimeout(() => { patient.value = false; }, QUIET);
    return () => clearTimeout(timer);
  }, [down]);

  if (link.kind === "online") {
    const { value } = app.degraded;
    return value === null ? null : <div class="banner warn" role="status" data-link="degraded"><Icon name="alert" size={16} /><span>{value}</span></div>;
  }
  if (patient.value || link.kind === "refused") return null;
  return (
    <div class="banner" role="status" data-link={link.kind}>
      <span class="spinner small" />
      <span>{link.kind === "connecting" ? "Connecting…" : `${link.reason} Trying again…`}</span>
      {link.kind === "offline" && <button type="button" class="link" onClick={() => app.client.retryNow()}>Try now</button>}
    </div>
  );
}
