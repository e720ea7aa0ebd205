/** Plain text that may grow: what is added is added to the page, without putting the whole text there again. */
import { useLayoutEffect, useRef } from "preact/hooks";

export function StreamText({ text, rewrites, class: name = "plain" }: { text: string; rewrites: number; class?: string }) {
  const root = useRef<HTMLDivElement>(null);
  const shown = useRef<{ node: Text; length: number; rewrites: number } | null>(null);
  useLayoutEffect(() => {
    const before = shown.current;
    if (before && before.rewrites === rewrites && before.length <= text.length) {
      if (before.length < text.length) before.node.appendData(text.slice(before.length));
      before.length = text.length;
      return;
    }
    const node = document.createTextNode(text);
    root.current?.replaceChildren(node);
    shown.current = { node, length: text.length, rewrites };
  }, [text, rewrites]);
  return <div class={name} ref={root} />;
}
