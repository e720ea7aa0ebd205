/** A JSON value to look into. Parts that are the same object as before are not rendered again. */
import { useSignal } from "@preact/signals";
import type { Json } from "../wire";
import { Icon } from "./icons";
import { memo } from "./memo";

/** Members shown at first of one object or array. */
const FIRST = 50;

export const JsonTree = memo(function JsonTree({ value }: { value: Json }) {
  return <div class="json"><Members value={value} /></div>;
});

const Members = memo(function Members({ value }: { value: Json }) {
  const limit = useSignal(FIRST);
  if (value === null || typeof value !== "object") return <Scalar value={value} />;
  const all: [string, Json][] = Array.isArray(value) ? value.map((item, at) => [String(at), item]) : Object.entries(value);
  const rest = all.length - limit.value;
  return (
    <ul class="json-members">
      {all.slice(0, limit.value).map(([name, member]) => <Member key={name} name={name} value={member} />)}
      {rest > 0 && (
        <li><button type="button" class="link" onClick={() => { limit.value += 500; }}>{rest.toLocaleString()} more</button></li>
      )}
    </ul>
  );
});

const Member = memo(function Member({ name, value }: { name: string; value: Json }) {
  const inner = value !== null && typeof value === "object";
  const count = inner ? Object.keys(value).length : 0;
  const open = useSignal(inner && count > 0 && count <= 8);
  if (!inner || count === 0) {
    return <li class="json-member"><span class="json-key">{name}</span><Scalar value={value} /></li>;
  }
  return (
    <li class="json-member nested">
      <button type="button" class="json-toggle" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>
        <Icon name="chevron" size={13} />
        <span class="json-key">{name}</span>
        <span class="json-count">{Array.isArray(value) ? `[${count}]` : `{${count}}`}</span>
      </button>
      {open.value && <Members value={value} />}
    </li>
  );
});

function Scalar({ value }: { value: Json }) {
  if (value === null) return <span class="json-null">null</span>;
  if (typeof value === "string") return <span class="json-string">{value}</span>;
  if (typeof value === "object") return <span class="json-null">{Array.isArray(value) ? "[ ]" : "{ }"}</span>;
  return <span class="json-number">{typeof value === "number" ? value.toLocaleString(undefined, { maximumFractionDigits: 6 }) : String(value)}</span>;
}
