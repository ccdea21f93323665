// Markdown to a tree: what models write, what they should not, and text that never ends.

import assert from "node:assert/strict";
import test from "node:test";

import { parse, safeAddress, spans } from "./markdown.js";

const kinds = (text) => parse(text).map((block) => block.kind);

test("blocks are told apart", () => {
  const text = "# T\npara\n\n- a\n- b\n\n1. x\n2. y\n\n> q\n\n---\n\n| a | b |\n|:-:|--:|\n| 1 |\n\n```py\nx\n```";
  const found = ["heading", "paragraph", "list", "list", "quote", "rule", "table", "code"];
  assert.deepEqual(kinds(text), found);
  const [, , , , , , table, code] = parse(text);
  assert.deepEqual(table.align, ["center", "right"]);
  assert.deepEqual(table.rows, [[["1"], []]]);
  assert.deepEqual([code.language, code.text, code.open], ["py", "x", false]);
});

test("lists nest, and their items may be long", () => {
  const [list, after] = parse("1. one\n\n   more\n   - inner\n     deep\n2. two\n\nafter");
  assert.equal(list.items.length, 2);
  assert.deepEqual(list.items[0].map((one) => one.kind), ["paragraph", "paragraph", "list"]);
  assert.deepEqual(list.items[0][2].items[0][0].spans, ["inner", { kind: "break" }, "deep"]);
  assert.equal(after.kind, "paragraph");
  assert.equal(parse("3. c\n4. d")[0].start, 3);
  assert.deepEqual(kinds("It was in\n1984. Then"), ["paragraph"]);
});

test("code that is still being written is code to the end", () => {
  const [code] = parse("```html\n<b>x\n\n- y");
  assert.deepEqual([code.kind, code.text, code.open], ["code", "<b>x\n\n- y", true]);
  const [tilde] = parse("~~~\n```\n~~~");
  assert.equal(tilde.text, "```");
});

test("spans are told apart", () => {
  assert.deepEqual(spans("a **b _c_** `*d*` ~~e~~ \\*f\\*"), [
    "a ",
    { kind: "strong", spans: ["b ", { kind: "emphasis", spans: ["c"] }] },
    " ",
    { kind: "code", text: "*d*" },
    " ",
    { kind: "deleted", spans: ["e"] },
    " *f*",
  ]);
  for (const plain of ["snake_case_name", "2 * 3 * 4", "**open", "a_b", "`open", "5 ~ 6", "* *"]) {
    assert.deepEqual(spans(plain), [plain]);
  }
});

test("markup is text", () => {
  const text = '<script>alert(1)</script> <img src=x onerror="alert(1)"> &lt;';
  assert.deepEqual(spans(text), [text]);
  assert.deepEqual(kinds("<div>\n<b>"), ["paragraph"]);
});

test("links lead out to the web or to mail and nowhere else", () => {
  const [link] = spans("[a **b**](https://x.example/p_(q) 'title')");
  assert.deepEqual([link.kind, link.address], ["link", "https://x.example/p_(q)"]);
  for (const bad of [
    ...["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:x", "java\nscript:x"],
    ...["data:text/html,x", "vbscript:x", "file:///etc/passwd", "//evil.example", "/roost/v1", "x"],
    ...["blob:x", "about:blank", "https://"],
  ]) {
    assert.equal(safeAddress(bad), null, bad);
    assert.ok(!JSON.stringify(spans(`[x](${bad})`)).includes('"link"'), bad);
  }
  const image = spans("![pic](https://x.example/i.png)");
  assert.equal(image[0].kind, "link");
  const [, bare, end] = spans("see https://x.example/a_b. And");
  assert.deepEqual([bare.address, end], ["https://x.example/a_b", ". And"]);
  assert.equal(spans("<https://x.example>")[0].address, "https://x.example/");
});

test("hostile text costs no more than long text", () => {
  const many = 20_000;
  for (const text of [
    ...["*a ", "_a", "**", "[", "![](", "[a](", "`a``b", "<http", "> ", "- ", "|a", "~~x", "***"].map((one) =>
      one.repeat(many),
    ),
    `# ${" ".repeat(many)}x`,
    "```" + " ".repeat(many) + "`",
    `|a\n-${" ".repeat(many)}x`,
    `- a\n${"\n".repeat(many)}  x`,
    "1. x\n".repeat(many / 4),
    `${"*a ".repeat(many)}a*`,
  ]) {
    const startedMs = performance.now();
    parse(text);
    const tookMs = performance.now() - startedMs;
    assert.ok(tookMs < 2000, `${text.slice(0, 8)}… took ${tookMs} ms`);
  }
});

test("any text is parsed, cut anywhere", () => {
  const text = "# A *b*\n\n- c\n  1. d `e`\n\n| f | g |\n|---|---|\n| **h** | [i](https://j.k) |\n\n```l\nm\n```\n> n\n";
  for (let cut = 0; cut <= text.length; cut += 1) {
    assert.ok(Array.isArray(parse(text.slice(0, cut))));
    assert.ok(Array.isArray(parse(text.slice(cut))));
  }
});
