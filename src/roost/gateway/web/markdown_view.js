// The tree of `markdown.js` as elements.

import { copied, el } from "./dom.js";
import { parse } from "./markdown.js";

/** Shows a text that grows: blocks that have not changed stay as they are. */
export class Prose {
  constructor() {
    this.element = el("div", { class: "prose" });
    this.shown = [];
  }

  /** Shows this text. */
  show(text) {
    const blocks = parse(text);
    let same = 0;
    while (same < this.shown.length && same < blocks.length && this.stays(same, blocks[same])) {
      same += 1;
    }
    for (const { element } of this.shown.splice(same)) element.remove();
    for (const block of blocks.slice(same)) {
      const element = blockElement(block);
      this.shown.push({ block, element });
      this.element.append(element);
    }
  }

  stays(at, block) {
    const { block: shown, element } = this.shown[at];
    if (shown.kind === block.kind && shown.source === block.source && shown.open === block.open) {
      return true;
    }
    if (shown.kind !== "code" || block.kind !== "code" || shown.language !== block.language) {
      return false;
    }
    // Code that grows keeps its element, and so its place when somebody has scrolled in it.
    element.querySelector("code").textContent = block.text;
    this.shown[at].block = block;
    return true;
  }
}

function blockElement(block) {
  switch (block.kind) {
    case "heading":
      // The page has the first two levels to itself.
      return el(`h${Math.min(6, block.level + 2)}`, {}, spanNodes(block.spans));
    case "rule":
      return el("hr");
    case "quote":
      return el("blockquote", {}, block.blocks.map(blockElement));
    case "list":
      return listElement(block);
    case "table":
      return tableElement(block);
    case "code":
      return codeElement(block);
    default:
      return el("p", {}, spanNodes(block.spans));
  }
}

function listElement({ ordered, start, items }) {
  const tight = items.every((blocks) => blocks.filter((one) => one.kind === "paragraph").length <= 1);
  const made = items.map((blocks) =>
    el(
      "li",
      {},
      blocks.flatMap((one) =>
        tight && one.kind === "paragraph" ? spanNodes(one.spans) : [blockElement(one)],
      ),
    ),
  );
  return el(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : {}, made);
}

function tableElement({ head, align, rows }) {
  const cell = (tag, spans, i) => el(tag, { class: `at-${align[i]}` }, spanNodes(spans));
  const headRow = el("tr", {}, head.map((spans, i) => cell("th", spans, i)));
  const bodyRows = rows.map((row) => el("tr", {}, row.map((spans, i) => cell("td", spans, i))));
  const table = el("table", {}, el("thead", {}, headRow), el("tbody", {}, bodyRows));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

function codeElement({ language, text }) {
  const code = el("code", {}, text);
  const button = el("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(code.textContent)) ? "Copied" : "Select it and copy by hand";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  });
  return el(
    "div",
    { class: "code" },
    el("div", { class: "code-head" }, el("span", {}, language || "code"), button),
    el("pre", { tabindex: "0", "aria-label": `${language || "code"} block` }, code),
  );
}

function spanNodes(spans) {
  return spans.map((span) => {
    if (typeof span === "string") return document.createTextNode(span);
    switch (span.kind) {
      case "break":
        return el("br");
      case "code":
        return el("code", {}, span.text);
      case "link":
        return linkElement(span);
      case "strong":
        return el("strong", {}, spanNodes(span.spans));
      case "emphasis":
        return el("em", {}, spanNodes(span.spans));
      case "deleted":
        return el("del", {}, spanNodes(span.spans));
      default:
        return el("span", {}, spanNodes(span.spans));
    }
  });
}

function linkElement({ address, spans }) {
  const shown = { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: address };
  return el("a", shown, spanNodes(spans));
}
