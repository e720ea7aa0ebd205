/**
 * Markdown to HTML, block by block, so that a text that grows is rendered at its end only.
 *
 * What agents write is not trusted: HTML in it is shown as text, images become links (a page that loads them would
 * tell their server), and only web and mail addresses are links. Who puts the result into a page sanitises it besides.
 */
import { Marked, type Tokens, type TokensList } from "marked";

export interface Block {
  /** Blocks with the same key have the same HTML. */
  readonly key: string;
  html(): string;
}

const escapes: { readonly [character: string]: string } = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => escapes[character] as string);
}

export function safeAddress(address: string): string | null {
  const trimmed = address.trim();
  return /^(https?:\/\/|mailto:)[^\s]+$/i.test(trimmed) ? trimmed : null;
}

function link(address: string, html: string): string {
  const safe = safeAddress(address);
  return safe === null ? html : `<a href="${escapeHtml(safe)}" target="_blank" rel="noopener noreferrer">${html}</a>`;
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) => link(href, escapeHtml(text || href)),
    link({ href, tokens }) { return link(href, this.parser.parseInline(tokens)); },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    code: ({ text, lang }) => {
      const language = (lang ?? "").match(/^[\w+#.-]{1,20}/)?.[0] ?? "";
      return `<pre><code${language ? ` data-language="${escapeHtml(language)}"` : ""}>${escapeHtml(text)}\n</code></pre>`;
    },
  },
});

export function blocksOf(text: string): Block[] {
  const tokens: TokensList = marked.lexer(text);
  // A link's target may be defined further down: then the blocks before it change as well.
  const targets = Object.keys(tokens.links).length > 0 ? `\n${JSON.stringify(tokens.links)}` : "";
  return tokens
    .filter((token) => token.type !== "space" && token.type !== "def")
    .map((token) => ({ key: token.raw + targets, html: () => marked.parser([token as Tokens.Generic]) }));
}

export function toHtml(text: string): string {
  return blocksOf(text).map((block) => block.html()).join("");
}
