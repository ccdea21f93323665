// The list of conversations: open, rename, export, delete.

import { confirmed, question } from "./dialogs.js";
import { download, el, get, tool } from "./dom.js";
import { fileName, markdownOf } from "./talks.js";
import { ago } from "./words.js";

export class TalkList {
  /** `acts` has `open(id)`, `gone(id)` and `busy(id)`. */
  constructor(shelf, acts) {
    this.shelf = shelf;
    this.acts = acts;
    this.place = get("talks");
    this.filter = get("filter");
    this.filter.addEventListener("input", () => this.show());
    get("export-all").addEventListener("click", () => this.exportAll());
    document.addEventListener("click", (event) => this.closeMenus(event.target));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.closeMenus(null);
    });
  }

  /** Shows what is kept, with `id` as the one that is open. */
  show(id = this.current) {
    this.current = id;
    const words = this.filter.value.trim().toLowerCase();
    const all = this.shelf.all();
    const found = all.filter((talk) => talk.title.toLowerCase().includes(words));
    const nothing = all.length === 0 ? "Nothing yet" : "None is called that";
    const empty = el("li", { class: "empty" }, nothing);
    this.place.replaceChildren(...(found.length > 0 ? found.map((one) => this.row(one)) : [empty]));
    this.filter.hidden = all.length < 8 && words === "";
    get("export-all").hidden = all.length === 0;
  }

  row(talk) {
    const title = talk.title || "Untitled";
    const open = {
      type: "button",
      class: "talk",
      "aria-current": talk.id === this.current ? "page" : null,
      onclick: () => this.acts.open(talk.id),
    };
    const busy = this.acts.busy(talk.id);
    const when = busy ? "answering…" : ago(talk.updated, Date.now());
    const name = el("span", { class: "talk-title" }, title);
    return el(
      "li",
      {},
      el("button", open, name, el("small", { class: busy ? "busy" : null }, when)),
      this.menu(talk, title),
    );
  }

  menu(talk, title) {
    const entry = (label, act) => {
      const button = el("button", { type: "button" }, label);
      button.addEventListener("click", () => {
        this.closeMenus(null);
        act();
      });
      return el("li", {}, button);
    };
    const list = el(
      "ul",
      { class: "menu", hidden: true },
      entry("Rename…", () => this.rename(talk)),
      entry("Export as Markdown", () => {
        download(fileName(title, "md"), "text/markdown", markdownOf(this.shelf.get(talk.id) ?? talk));
      }),
      entry("Export as JSON", () => {
        download(fileName(title, "json"), "application/json", json(this.shelf.get(talk.id) ?? talk));
      }),
      entry("Delete…", () => this.remove(talk, title)),
    );
    const button = tool("more", `More about “${title}”`, () => this.toggle(button, list), {
      "aria-expanded": "false",
    });
    return el("div", { class: "menu-place" }, button, list);
  }

  toggle(button, list) {
    const opens = list.hidden;
    this.closeMenus(null);
    list.hidden = !opens;
    button.setAttribute("aria-expanded", String(opens));
    if (opens) list.querySelector("button").focus();
  }

  closeMenus(within) {
    for (const list of this.place.querySelectorAll(".menu:not([hidden])")) {
      if (within && list.parentElement.contains(within)) continue;
      const had = list.contains(document.activeElement);
      list.hidden = true;
      const button = list.parentElement.querySelector("button");
      button.setAttribute("aria-expanded", "false");
      if (had) button.focus();
    }
  }

  async rename(talk) {
    const field = { name: "title", label: "Name", value: talk.title, maxlength: 200, required: true };
    const given = await question({ title: "Rename", fields: [field], yes: "Rename" });
    if (given === null || given.title.trim() === "") return;
    this.acts.renamed(talk.id, given.title.trim());
  }

  async remove(talk, title) {
    const text = `“${title}” is kept in this browser alone, and nobody can bring it back.`;
    if (!(await confirmed("Delete this conversation?", text, "Delete"))) return;
    this.shelf.remove(talk.id);
    this.acts.gone(talk.id);
  }

  exportAll() {
    const name = `conversations-${new Date().toISOString().slice(0, 10)}.json`;
    download(name, "application/json", json({ conversations: this.shelf.all() }));
  }
}

function json(value) {
  return `${JSON.stringify(value, null, 2)}\n`;
}
