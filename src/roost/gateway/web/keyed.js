// Lists that are shown again and again: what stays keeps its element, and with it the focus.

import { el } from "./dom.js";

/** The children of an element, each for the `key` of an item; `make(item)` gives an object with an
 * `element` and `show(item)`. */
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.parts = new Map();
  }

  show(items) {
    const keys = new Set(items.map((item) => item.key));
    for (const [key, part] of this.parts) {
      if (keys.has(key)) continue;
      part.element.remove();
      this.parts.delete(key);
    }
    let before = this.parent.firstElementChild;
    for (const item of items) {
      if (!this.parts.has(item.key)) this.parts.set(item.key, this.make(item));
      const part = this.parts.get(item.key);
      part.show(item);
      if (part.element === before) before = before.nextElementSibling;
      else this.parent.insertBefore(part.element, before);
    }
  }
}

/** Writes a text where it is another one than before. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets a class that is one of several. */
export function toned(element, base, tone) {
  const wanted = tone === "" ? base : `${base} ${tone}`;
  if (element.className !== wanted) element.className = wanted;
}

/** A bar with its words beside it. */
export class Bar {
  constructor() {
    this.name = el("span", { class: "bar-name" });
    this.words = el("span", { class: "bar-words" });
    this.fill = el("span", { class: "bar-fill" });
    const track = el("span", { class: "bar-track", "aria-hidden": "true" }, this.fill);
    this.element = el("div", { class: "gauge" }, this.name, this.words, track);
  }

  show({ name, text, percent, tone = "" }) {
    write(this.name, name);
    write(this.words, text);
    toned(this.fill, "bar-fill", tone);
    this.fill.style.width = `${percent}%`;
  }
}

/** A table with a title; a column is `{title, cell(item)}` for text or `{title, make(item)}` for a
 * part with `element` and `show(item)`; one without a title is for buttons. */
export class Table {
  constructor(title, columns, empty) {
    this.columns = columns;
    this.body = el("tbody");
    this.empty = el("p", { class: "nothing" }, empty);
    const heads = columns.map((one) => el("th", { scope: "col" }, one.title || "\u00A0"));
    this.table = el("table", {}, el("thead", {}, el("tr", {}, heads)), this.body);
    this.wide = el("div", { class: "wide", role: "region", "aria-label": title, tabindex: "0" }, this.table);
    this.element = el("section", { class: "block" }, el("h2", {}, title), this.wide, this.empty);
    this.rows = new Keyed(this.body, () => this.row());
  }

  row() {
    const cells = this.columns.map((column) => (column.make ? column.make() : textCell(column)));
    const tds = cells.map((cell) => el("td", {}, cell.element));
    return {
      element: el("tr", {}, tds),
      show: (item) => cells.forEach((cell) => cell.show(item)),
    };
  }

  show(items) {
    this.wide.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    this.rows.show(items);
  }
}

function textCell(column) {
  const element = el("span");
  return { element, show: (item) => write(element, column.cell(item)) };
}

/** A cell with a word on a coloured ground. */
export function chipCell(word) {
  const element = el("span", { class: "chip" });
  return {
    element,
    show: (item) => {
      write(element, word(item));
      toned(element, "chip", item.tone);
    },
  };
}
