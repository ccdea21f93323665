// Which models there are, and the choice among them.

import { askJson } from "./api.js";
import { el, get } from "./dom.js";

const CHOICE = "roost.model";

export class Models {
  /** `onchange` gets the name of the model that somebody has chosen. */
  constructor(onchange) {
    this.select = get("model");
    this.names = null;
    this.wanted = localStorage.getItem(CHOICE) ?? "";
    this.select.addEventListener("change", () => {
      this.wanted = this.select.value;
      try {
        localStorage.setItem(CHOICE, this.wanted);
      } catch {
        // Without room the choice lasts as long as the page.
      }
      onchange(this.wanted);
    });
  }

  /** Asks which there are; rejects with the refusal. */
  async load() {
    const { data } = await askJson("v1/models");
    // Others make vectors, or score documents.
    const names = data.filter((one) => !one.mode).map((one) => one.id);
    const same = this.names !== null && names.join("\n") === this.names.join("\n");
    this.names = names;
    if (!same) this.show();
  }

  /** The one that a new conversation has: the last choice while it is there. */
  get usual() {
    const names = this.names ?? [];
    return names.includes(this.wanted) ? this.wanted : (names[0] ?? this.wanted);
  }

  /** Shows `model` as the chosen one, also where it is not here now. */
  show(model = this.shown) {
    this.shown = model || this.usual;
    const names = this.names ?? [];
    const options = names.map((name) => el("option", { value: name }, name));
    if (this.shown && !names.includes(this.shown)) {
      const missing = this.names === null ? this.shown : `${this.shown} (not here now)`;
      options.unshift(el("option", { value: this.shown }, missing));
    }
    if (options.length === 0) options.push(el("option", { value: "" }, "no model yet"));
    this.select.replaceChildren(...options);
    this.select.value = this.shown;
  }
}
