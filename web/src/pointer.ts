/**
 * JSON Pointer (RFC 6901) and the three operations of JSON Patch (RFC 6902) that changes use.
 *
 * Values are never changed: an operation copies the objects and arrays along its path and shares everything
 * else, so that two values can be compared by identity, part by part.
 */
import type { Json, JsonObject, PatchOp } from "./wire";

/** An operation that does not fit the value it was meant for. */
export class PatchError extends Error {
  override readonly name = "PatchError";
}

/** The reference tokens of a pointer; "" is the whole value. */
export function parsePointer(pointer: string): string[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/")) throw new PatchError(`not a pointer: ${pointer}`);
  if (/~(?![01])/.test(pointer)) throw new PatchError(`bad escape: ${pointer}`);
  return pointer.slice(1).split("/").map((token) => token.replace(/~1/g, "/").replace(/~0/g, "~"));
}

/** The value after `op`. Throws PatchError, and then nothing has happened. */
export function applyOp(value: Json, op: PatchOp): Json {
  return step(value, parsePointer(op.path), 0, op);
}

function step(value: Json, tokens: readonly string[], depth: number, op: PatchOp): Json {
  if (depth === tokens.length) {
    if (op.op === "remove") throw new PatchError("the root cannot be removed");
    return op.value;
  }
  if (Array.isArray(value)) return stepArray(value, tokens, depth, op);
  if (value !== null && typeof value === "object") return stepObject(value, tokens, depth, op);
  throw new PatchError(`nothing at ${op.path}`);
}

function stepObject(value: JsonObject, tokens: readonly string[], depth: number, op: PatchOp): JsonObject {
  const token = tokens[depth] as string;
  const exists = Object.hasOwn(value, token);
  const last = depth === tokens.length - 1;
  if (!exists && !(last && op.op === "add")) throw new PatchError(`nothing at ${op.path}`);
  const copy = { ...value };
  if (last && op.op === "remove") delete copy[token];
  else setOwn(copy, token, step(exists ? (value[token] as Json) : null, tokens, depth + 1, op));
  return copy;
}

function stepArray(value: Json[], tokens: readonly string[], depth: number, op: PatchOp): Json[] {
  const token = tokens[depth] as string;
  const last = depth === tokens.length - 1;
  const insert = last && op.op === "add";
  const index = insert && token === "-" ? value.length : arrayIndex(token);
  if (index > value.length || (index === value.length && !insert)) throw new PatchError(`nothing at ${op.path}`);
  const copy = value.slice();
  if (insert) copy.splice(index, 0, op.value);
  else if (last && op.op === "remove") copy.splice(index, 1);
  else copy[index] = step(value[index] as Json, tokens, depth + 1, op);
  return copy;
}

function arrayIndex(token: string): number {
  if (!/^(0|[1-9][0-9]{0,14})$/.test(token)) throw new PatchError(`not an index: ${token}`);
  return Number(token);
}

/** Set a member whatever it is called: plain assignment to `__proto__` would not make one. */
function setOwn(target: JsonObject, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    target[key] = value;
  }
}
