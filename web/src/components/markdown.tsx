/** Markdown in the page. Blocks that did not change keep their elements; a growing text is rendered a few times a second. */
import DOMPurify from "dompurify";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { blocksOf } from "../markdown";
import { Turns } from "./turns";

const ALLOWED_TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "strong",
  "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ALLOWED_ATTR = ["href", "title", "target", "rel", "align", "start", "data-language"];

/** Milliseconds between two renderings of a growing text; long ones get ten times what the last one took. */
const LEAST_PAUSE = 100;
const MOST_PAUSE = 2_000;
/** Characters of a text that are shown as they are until it is its turn to be rendered: laying out a long one takes long, too. */
const MOST_RAW = 1_000;

/** Many texts may come at once: they are rendered one after the other, with everything else between. */
const turns = new Turns();

class MarkdownView {
  #keys: string[] = [];
  #shown: string | null = null;
  #wanted = "";
  #timer: ReturnType<typeof setTimeout> | null = null;
  #next = 0;
  #waiting = false;
  #disposed = false;

  constructor(private readonly root: HTMLElement) {}

  show(text: string): void {
    this.#wanted = text;
    if (this.#timer !== null || text === this.#shown) return;
    const pause = this.#next - performance.now();
    if (pause <= 0) this.#wait();
    else this.#timer = setTimeout(() => { this.#timer = null; this.#wait(); }, pause);
  }

  dispose(): void {
    this.#disposed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #wait(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    turns.take(() => {
      this.#waiting = false;
      if (!this.#disposed) this.#render();
    });
    if (this.#waiting && this.#shown === null) {
      this.root.textContent = this.#wanted.slice(0, MOST_RAW);
      this.root.classList.add("raw");
    }
  }

  #render(): void {
    if (this.root.classList.contains("raw")) {
      this.root.textContent = "";
      this.root.classList.remove("raw");
    }
    const began = performance.now();
    const blocks = blocksOf(this.#wanted);
    let same = 0;
    while (same < blocks.length && same < this.#keys.length && blocks[same]?.key === this.#keys[same]) same += 1;
    while (this.root.childElementCount > same) this.root.lastElementChild?.remove();
    for (const block of blocks.slice(same)) this.root.append(elementOf(block.html()));
    this.#keys = blocks.map((block) => block.key);
    this.#shown = this.#wanted;
    const took = performance.now() - began;
    this.#next = performance.now() + Math.min(MOST_PAUSE, Math.max(LEAST_PAUSE, took * 10));
  }
}

function elementOf(html: string): HTMLElement {
  const block = document.createElement("div");
  block.className = "md-block";
  block.append(DOMPurify.sanitize(html, {
    ALLOWED_TAGS, ALLOWED_ATTR, ADD_ATTR: ["target"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
  }));
  for (const table of block.querySelectorAll("table")) {
    const scroller = document.createElement("div");
    scroller.className = "table-scroll";
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "region");
    scroller.setAttribute("aria-label", "Table");
    table.replaceWith(scroller);
    scroller.append(table);
  }
  for (const pre of block.querySelectorAll("pre")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "copy-code";
    copy.textContent = "Copy";
    const frame = document.createElement("div");
    frame.className = "code-frame";
    pre.replaceWith(frame);
    frame.append(pre, copy);
  }
  return block;
}

function onClick(event: MouseEvent): void {
  const button = (event.target as Element).closest?.(".copy-code");
  if (!button) return;
  const code = button.previousElementSibling?.textContent ?? "";
  void navigator.clipboard?.writeText(code.replace(/\n$/, "")).then(() => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1_500);
  });
}

export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | null>(null);
  useLayoutEffect(() => {
    view.current ??= new MarkdownView(root.current as HTMLElement);
    view.current.show(text);
  }, [text]);
  useEffect(() => () => view.current?.dispose(), []);
  return <div class="markdown" ref={root} onClick={onClick} />;
}
