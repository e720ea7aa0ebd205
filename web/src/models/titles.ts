import type { Attachment } from "../wire";

const LONGEST = 60;

/** What a session is called on screen. */
export function titleOf(context: { readonly name: string; readonly no: number }): string {
  return context.name || `Session ${context.no}`;
}

/** A name for a session, from its first message; "" if there is nothing to take it from. */
export function nameFrom(text: string, attachments: readonly Pick<Attachment, "name">[]): string {
  // The hub takes no control characters in a name.
  const line = text.split("\n").map((part) => part.replace(/[\u0000-\u001f\u007f]+/g, " ").trim()).find((part) => part !== "") ?? "";
  const name = line || (attachments[0]?.name ?? "");
  const characters = [...name];
  return characters.length <= LONGEST ? name : `${characters.slice(0, LONGEST - 1).join("").trimEnd()}…`;
}
