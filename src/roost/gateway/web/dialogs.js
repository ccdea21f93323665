// Questions to whoever sits here, in the browser's own dialog element.

import { el, get } from "./dom.js";
import { chatKey, hasOperatorKey, keepKeys, operatorKey, sendable } from "./keys.js";

let number = 0;

/** Asks; gives the values of the fields, or null. A field is `{name, label, value, …attributes}`. */
export function question({ title, text = "", fields = [], yes, danger = false }) {
  number += 1;
  const name = `dialog-${number}`;
  const inputs = fields.map((field) => inputOf(field));
  const no = el("button", { type: "button", class: "button" }, "Cancel");
  const go = el("button", { type: "submit", class: danger ? "button danger" : "button primary" }, yes);
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", { id: name }, title),
    text === "" ? null : text.split("\n").map((line) => el("p", {}, line)),
    inputs.map(({ row }) => row),
    el("div", { class: "row end" }, no, go),
  );
  const dialog = el("dialog", { "aria-labelledby": name }, form);
  document.body.append(dialog);
  dialog.showModal();
  // Where something is destroyed, Enter alone does not do it.
  if (danger) no.focus();
  else inputs[0]?.input.select();
  return new Promise((resolve) => {
    no.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close("yes");
    });
    dialog.addEventListener("close", () => {
      const said = dialog.returnValue === "yes";
      resolve(said ? Object.fromEntries(inputs.map((one) => [one.name, one.input.value])) : null);
      dialog.remove();
    });
  });
}

function inputOf({ name, label, value = "", hint = "", rows = 0, ...attributes }) {
  const input = el(rows > 0 ? "textarea" : "input", { ...attributes, name, rows: rows || null });
  input.value = value;
  const told = hint === "" ? null : el("small", {}, hint);
  return { name, input, row: el("label", { class: "field" }, el("span", {}, label), input, told) };
}

/** Asks whether something may be done. */
export async function confirmed(title, text, yes) {
  return (await question({ title, text, yes, danger: true })) !== null;
}

/** Asks for keys and keeps them for this tab; false where somebody thought better of it. */
export async function askForKeys(why = "") {
  const given = await question({
    title: "Keys",
    text: why || "This gateway may ask for a key. It is kept until this tab is closed.",
    yes: "Use these",
    fields: [
      {
        name: "chat",
        label: "Key",
        value: chatKey(),
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        hint: "Made with: roost keys add NAME",
      },
      {
        name: "operator",
        label: "Operator's key, if it is another one",
        value: hasOperatorKey() ? operatorKey() : "",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        hint: "Made with: roost keys add NAME --role admin. For the fleet alone.",
      },
    ],
  });
  if (given === null) return false;
  if (!sendable(given.chat) || !sendable(given.operator)) {
    return askForKeys("That is no key: it has characters that no key has.");
  }
  keepKeys(given.chat, given.operator);
  return true;
}

let clearing = 0;

/** Says something that needs no answer. */
export function notice(text) {
  const place = get("notice");
  place.textContent = text;
  place.hidden = false;
  clearTimeout(clearing);
  clearing = setTimeout(() => {
    place.hidden = true;
  }, 6000);
}
