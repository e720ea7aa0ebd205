/** An entry's pairs as a table; a list of like objects becomes a table of its own. */
import { useSignal } from "@preact/signals";
import type { Json, JsonObject } from "../wire";
import { JsonTree } from "./json-tree";
import { memo } from "./memo";

const LONG = 400;

export const Kvps = memo(function Kvps({ kvps }: { kvps: { readonly [key: string]: Json } }) {
  const pairs = Object.entries(kvps);
  if (pairs.length === 0) return null;
  return (
    <dl class="kvps">
      {pairs.map(([key, value]) => (
        <div class="kvp" key={key}>
          <dt>{key.replaceAll("_", " ")}</dt>
          <dd><Value value={value} /></dd>
        </div>
      ))}
    </dl>
  );
});

const Value = memo(function Value({ value }: { value: Json }) {
  if (typeof value === "string") return <LongText text={value} />;
  if (typeof value === "number") return <span class="number">{value.toLocaleString(undefined, { maximumFractionDigits: 6 })}</span>;
  if (value === null || typeof value === "boolean") return <span class="number">{value === null ? "–" : value ? "yes" : "no"}</span>;
  if (Array.isArray(value) && value.every((item) => item === null || typeof item !== "object")) {
    return <LongText text={value.map(String).join(", ")} />;
  }
  const columns = Array.isArray(value) ? columnsOf(value) : null;
  return columns ? <Rows rows={value as JsonObject[]} columns={columns} /> : <JsonTree value={value} />;
});

function LongText({ text }: { text: string }) {
  const open = useSignal(false);
  if (text.length <= LONG || open.value) return <span class="text">{text}</span>;
  return (
    <span class="text">
      {text.slice(0, LONG)}… <button type="button" class="link" onClick={() => { open.value = true; }}>show all</button>
    </span>
  );
}

function Rows({ rows, columns }: { rows: readonly JsonObject[]; columns: readonly string[] }) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead><tr>{columns.map((column) => <th key={column}>{column.replaceAll("_", " ")}</th>)}</tr></thead>
        <tbody>
          {rows.slice(0, 100).map((row, at) => (
            <tr key={at}>{columns.map((column) => (
              <td key={column} class={typeof row[column] === "number" ? "number" : ""}>{cell(row[column])}</td>
            ))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The columns of a list of flat objects that have the same keys; null if it is something else. */
function columnsOf(list: readonly Json[]): string[] | null {
  const first = list[0];
  if (!isFlat(first)) return null;
  const columns = Object.keys(first);
  if (columns.length === 0 || columns.length > 12) return null;
  return list.every((row) => isFlat(row) && Object.keys(row).every((key) => columns.includes(key))) ? columns : null;
}

function isFlat(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    && Object.values(value).every((member) => member === null || typeof member !== "object");
}

function cell(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "number" ? value.toLocaleString(undefined, { maximumFractionDigits: 6 }) : String(value);
}
