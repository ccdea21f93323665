// One message, from a person or a model, with what can be done about it.

import { titleOf } from "./answer.js";
import { copied, el, tool } from "./dom.js";
import { notice } from "./dialogs.js";
import { Prose } from "./markdown_view.js";
import { rate, several } from "./words.js";

/** What a person has written; `acts` has `edit`. */
export function personMessage(message, acts) {
  const text = el("div", { class: "said" }, message.text);
  const tools = el(
    "div",
    { class: "tools" },
    tool("edit", "Edit this message and ask again", () => acts.edit()),
    tool("copy", "Copy this message", () => copy(message.text)),
  );
  return el("article", { class: "message person", "aria-label": "You" }, text, tools);
}

/** Writes a message anew in its place; `ondone` gets the text, or null. */
export function editor(text, dropped, ondone) {
  const area = el("textarea", { rows: 3, "aria-label": "Edit the message" });
  area.value = text;
  const yes = dropped > 0 ? `Ask again, and drop ${several(dropped, "later message")}` : "Ask again";
  const form = el(
    "form",
    { class: "editor" },
    area,
    el(
      "div",
      { class: "row end" },
      el("button", { type: "button", class: "button", onclick: () => ondone(null) }, "Cancel"),
      el("button", { type: "submit", class: "button primary" }, yes),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (area.value.trim() !== "") ondone(area.value);
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      ondone(null);
    }
  });
  queueMicrotask(() => area.focus());
  return form;
}

/** What a model says; `show` is called with every change, `acts` has `again` and `onward`. */
export class ModelMessage {
  constructor(model, acts) {
    this.acts = acts;
    this.prose = new Prose();
    this.thought = el("div", { class: "thought-text" });
    this.thoughtHead = el("summary", {}, "Reasoning");
    this.thoughts = el("details", { class: "thought", hidden: true }, this.thoughtHead, this.thought);
    this.state = el("p", { class: "state", hidden: true });
    this.foot = el("div", { class: "foot" });
    const name = el("header", { class: "who" }, model);
    this.element = el(
      "article",
      { class: "message model", "aria-label": `Answer of ${model}` },
      name,
      this.thoughts,
      this.prose.element,
      this.state,
      this.foot,
    );
  }

  /** `message` as it is kept, or of a run that goes on; `last` says whether it can be made anew. */
  show(message, { last, state = "" }) {
    const running = message.ending === "";
    this.message = message;
    this.element.classList.toggle("running", running);
    this.element.setAttribute("aria-busy", String(running));
    this.thoughts.hidden = message.thought === "";
    if (this.thought.textContent !== message.thought) this.thought.textContent = message.thought;
    const thinking = running && message.text === "";
    this.thoughtHead.textContent = thinking ? "Reasoning…" : "Reasoning";
    this.prose.show(message.text);
    this.state.hidden = !running || (message.text !== "" && state === "");
    this.state.textContent = state || "Waiting for the first word";
    this.foot.replaceChildren(...(running ? [] : this.ended(message, last)));
  }

  ended(message, last) {
    const parts = [];
    const trouble = this.trouble(message, last);
    if (trouble) parts.push(trouble);
    const tools = [];
    if (message.text !== "") tools.push(tool("copy", "Copy this answer", () => copy(message.text)));
    if (last && !trouble) tools.push(tool("again", "Answer again", () => this.acts.again()));
    const facts = factsOf(message);
    parts.push(el("div", { class: "tools" }, tools, facts && el("span", { class: "facts" }, facts)));
    return parts;
  }

  trouble(message, last) {
    const [title, text, kind] = endingWords(message);
    if (title === "") return null;
    const buttons = [];
    if (last) {
      const again = { type: "button", class: "button", onclick: () => this.acts.again() };
      buttons.push(el("button", again, kind === "bad" ? "Try again" : "Answer again"));
      if (message.text !== "") {
        const onward = { type: "button", class: "button", onclick: () => this.acts.onward() };
        buttons.push(el("button", onward, "Go on from here"));
      }
    }
    return el(
      "div",
      { class: `ending ${kind}`, role: kind === "bad" ? "alert" : "note" },
      el("strong", {}, title),
      text === "" ? null : el("p", {}, text),
      buttons.length > 0 ? el("div", { class: "row" }, buttons) : null,
    );
  }
}

function endingWords({ ending, error }) {
  switch (ending) {
    case "complete":
      return ["", "", ""];
    case "length":
      return ["The answer has reached its limit of tokens", "", "note"];
    case "stopped":
      return ["You stopped this answer", "", "note"];
    case "open":
      return ["This page was closed before the answer was complete", "", "note"];
    default: {
      const wait = error?.wait ? ` The gateway asks to wait ${error.wait} s.` : "";
      return [titleOf(error ?? {}), `${error?.message ?? ""}${wait}`, "bad"];
    }
  }
}

/** Where an answer came from and what it took, in a line. */
export function factsOf({ facts = {}, usage, rate: pace }) {
  const parts = [facts.node, facts.placement];
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? facts.cached_tokens;
  if (cached) parts.push(`${several(cached, "token")} cached`);
  if (usage) {
    parts.push(`${usage.prompt_tokens - (cached ?? 0)} read`);
    parts.push(`${usage.completion_tokens} said`);
  }
  if (pace) parts.push(rate(pace));
  if (facts.replays) parts.push(`gone on with after ${facts.replayed_after} was lost`);
  if (facts.trimmed_messages) parts.push(`${several(facts.trimmed_messages, "old message")} left out`);
  return parts.filter(Boolean).join(" · ");
}

async function copy(text) {
  notice((await copied(text)) ? "Copied" : "This browser does not let the page copy");
}
