// System 1's stats page: asks every two seconds while somebody can see it.

import { Refusal, askJson } from "./api.js";
import { askForKeys } from "./dialogs.js";
import { el, get } from "./dom.js";
import { Keyed, Table, toned, write } from "./keyed.js";
import { stripOf, workerOf } from "./stats_model.js";

const LOOK_MS = 2000;
let timer = 0;
let updated = "";

class WorkerRow {
  constructor() {
    this.chosen = null;
    this.name = el("strong");
    this.chip = el("span", { class: "chip" });
    this.draining = el("span", { class: "chip warn" }, "draining");
    this.told = el("span", { class: "about" });
    this.error = el("p", { class: "bad-words" });
    const columns = [
      { title: "Session", cell: (row) => row.id },
      { title: "Model", cell: (row) => row.model },
      { title: "KV", cell: (row) => row.kv },
      { title: "Idle", cell: (row) => row.idle },
      { title: "Max tokens", cell: (row) => row.most },
    ];
    this.table = new Table("Sessions", columns, "No sessions.");
    const head = el("summary", {}, this.name, this.chip, this.draining, this.told);
    this.element = el("details", { class: "worker" }, head, this.error, this.table.element);
    head.addEventListener("click", () => {
      this.chosen = !this.element.open;
    });
  }

  show(worker) {
    write(this.name, worker.id);
    write(this.chip, worker.status);
    toned(this.chip, "chip", worker.tone);
    this.draining.hidden = !worker.draining;
    write(this.told, [worker.told, worker.url].filter(Boolean).join(" · "));
    write(this.error, worker.error);
    this.table.element.hidden = worker.error !== "";
    this.table.show(worker.sessions);
    // Whoever has opened or closed it has the last word.
    this.element.open = this.chosen ?? worker.opens;
  }
}

const workers = new Keyed(get("workers"), () => new WorkerRow());
const strip = new Keyed(get("strip"), () => {
  const name = el("dt");
  const value = el("dd");
  const show = (item) => {
    write(name, item.name);
    write(value, item.value);
  };
  return { element: el("div", {}, name, value), show };
});

async function look() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const stats = await askJson("coordinator/stats");
    updated = new Date(stats.fetched_at).toLocaleTimeString();
    strip.show(stripOf(stats).map(([name, value]) => ({ key: name, name, value })));
    workers.show(stats.workers.map(workerOf));
    say("fine", `last update ${updated}`);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const last = updated === "" ? "" : ` What is shown is from ${updated}.`;
    say("error", `${error.message}${last} Retrying.`);
    if (error.status === 401 && !(await askForKeys(error.message))) {
      say("error", `${error.message} Reload the page to give a key.`);
      return;
    }
  }
  clearTimeout(timer);
  timer = setTimeout(look, LOOK_MS);
}

function say(state, text) {
  const place = get("status");
  place.dataset.state = state;
  write(place, text);
}

document.addEventListener("visibilitychange", look);
await look();
