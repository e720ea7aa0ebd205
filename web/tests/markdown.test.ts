import { expect, test } from "vitest";
import { blocksOf, safeAddress, toHtml } from "../src/markdown";

test("tables, lists, code and emphasis", () => {
  const html = toHtml("| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] **done**\n\n```py\nx < 1\n```");
  expect(html).toContain("<table>");
  expect(html).toContain('<td align="right">2</td>');
  expect(html).toContain("☑ ");
  expect(html).toContain("<strong>done</strong>");
  expect(html).toContain('<code data-language="py">x &lt; 1\n</code>');
});

test.each([
  "<script>alert(1)</script>",
  "text <img src=x onerror=alert(1)> text",
  "<div style='position:fixed'>x</div>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "![x](javascript:alert(1))",
  "<javascript:alert(1)>",
  "[x](https://a.example/\"onmouseover=alert(1))",
])("nothing of %s becomes markup", (text) => {
  const html = toHtml(text);
  expect(html).not.toMatch(/<(script|img|div|iframe|style)/i);
  expect(html).not.toMatch(/href="(?!https?:|mailto:)/i);
  expect(html.replace(/href="[^"]*"/g, "")).not.toMatch(/<a[^>]*\son/i);
});

test("images are links, and links say where they go", () => {
  expect(toHtml("![chart](https://a.example/c.png)")).toContain('<a href="https://a.example/c.png"');
  expect(toHtml("[x](https://a.example/?a=1&b=2)")).toContain('href="https://a.example/?a=1&amp;b=2"');
  expect(safeAddress(" https://a.example/ ")).toBe("https://a.example/");
  expect(safeAddress("//a.example")).toBeNull();
});

test("a text that grows keeps the keys of the blocks before its end", () => {
  const before = blocksOf("# One\n\ntwo two\n\nthr");
  const after = blocksOf("# One\n\ntwo two\n\nthree\n\n- four");
  expect(after.slice(0, 2).map((block) => block.key)).toEqual(before.slice(0, 2).map((block) => block.key));
  expect(after).toHaveLength(4);
});

test("a target that is defined later changes the blocks that may use it", () => {
  const [before] = blocksOf("see [x]\n\nend");
  const [after] = blocksOf("see [x]\n\nend\n\n[x]: https://a.example/");
  expect(after?.key).not.toBe(before?.key);
  expect(after?.html()).toContain("https://a.example/");
});
