// The fleet as it is now, and what an operator can do about it.

import { Refusal, ask, askJson } from "./api.js";
import { askForKeys, confirmed, notice } from "./dialogs.js";
import { el } from "./dom.js";
import { viewOf } from "./fleet_model.js";
import { Bar, Keyed, Table, chipCell, toned, write } from "./keyed.js";

const LOOK_MS = 1000;
const GONE = 404;

export class FleetView {
  /** Shows itself in `place` while it is watched; `onkey` is called where a key is asked for. */
  constructor(place, onkey) {
    this.onkey = onkey;
    this.view = null;
    this.timer = 0;
    this.watched = false;
    this.status = el("p", { class: "when", role: "status" });
    this.figures = el("dl", { class: "figures" });
    this.hints = el("ul", { class: "hints", "aria-label": "What is odd" });
    this.nodes = el("div", { class: "nodes" });
    this.feedless = el("p", { class: "nothing", hidden: true }, FEEDLESS);
    this.tables = this.makeTables();
    const title = el("header", { class: "fleet-head" }, el("h1", {}, "Fleet"), this.status);
    const head = [title, this.figures, this.hints, el("h2", {}, "Machines"), this.nodes];
    const blocks = Object.values(this.tables).map((table) => table.element);
    place.append(el("div", { class: "fleet-column" }, head, this.feedless, blocks));
    this.figureParts = new Keyed(this.figures, figurePart);
    this.hintParts = new Keyed(this.hints, hintPart);
    this.nodeParts = new Keyed(this.nodes, () => new NodeCard(this));
    document.addEventListener("visibilitychange", () => this.again(0));
  }

  makeTables() {
    const tenant = { title: "Tenant", cell: (row) => row.tenant };
    const model = { title: "Model", cell: (row) => row.model };
    const node = { title: "Machine", cell: (row) => row.node };
    const tokens = { title: "Tokens", cell: (row) => row.tokens };
    return {
      live: new Table(
        "Requests now",
        [
          model,
          { title: "Doing", make: () => chipCell((row) => row.doing) },
          { title: "Age", cell: (row) => row.age },
          node,
          tokens,
          tenant,
          { title: "", make: () => this.cancelCell() },
        ],
        "None is running and none waits.",
      ),
      tenants: new Table(
        "Who waits",
        [
          tenant,
          { title: "Waiting", cell: (row) => row.waiting },
          { title: "Running", cell: (row) => row.running },
          { title: "Oldest", cell: (row) => row.oldest },
          { title: "Tokens to come", cell: (row) => row.cost },
        ],
        "Nobody.",
      ),
      recent: new Table(
        "Ended last",
        [
          model,
          { title: "How", make: () => chipCell((row) => row.ended) },
          { title: "Took", cell: (row) => row.took },
          { title: "First word", cell: (row) => row.first },
          { title: "Pace", cell: (row) => row.pace },
          node,
          tokens,
          tenant,
        ],
        "Nothing since the start.",
      ),
      events: new Table(
        "What happened",
        [
          { title: "When", cell: (row) => clock(row.at) },
          { title: "What", make: () => chipCell((row) => row.what) },
          { title: "", cell: (row) => row.times },
          { title: "Of what", cell: (row) => row.facts },
        ],
        "Nothing of note.",
      ),
    };
  }

  /** Looks every second as long as it is `watched` and somebody can see it. */
  watch(watched) {
    this.watched = watched;
    this.again(0);
  }

  again(afterMs) {
    clearTimeout(this.timer);
    if (this.watched && !document.hidden) this.timer = setTimeout(() => this.look(), afterMs);
  }

  async look() {
    clearTimeout(this.timer);
    try {
      const [fleet, feed] = await Promise.all([
        askJson("roost/v1/fleet", { operator: true }),
        this.feed(),
      ]);
      this.show(viewOf(fleet, feed));
      write(this.status, `as of ${clock(Date.now())}`);
      toned(this.status, "when", "");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const since = this.view === null ? "" : " What is shown is from before that.";
      const refused = error.status === 401;
      write(this.status, `${error.message}${since}${refused ? "" : " Trying again."}`);
      toned(this.status, "when", "bad");
      if (refused) {
        this.onkey();
        return;
      }
    }
    this.again(LOOK_MS);
  }

  async feed() {
    try {
      return (await askJson("roost/v1/observability", { operator: true })).data;
    } catch (error) {
      // A gateway in front of servers that are not roost has no feed.
      if (error instanceof Refusal && error.status === GONE) return null;
      throw error;
    }
  }

  show(view) {
    this.view = view;
    this.figureParts.show(view.figures.map(([name, value]) => ({ key: name, name, value })));
    this.hints.hidden = view.hints.length === 0;
    this.hintParts.show(view.hints);
    this.nodeParts.show(view.nodes);
    this.feedless.hidden = view.hasFeed;
    for (const [name, table] of Object.entries(this.tables)) {
      table.element.hidden = !view.hasFeed;
      table.show(view[name]);
    }
  }

  cancelCell() {
    let row = null;
    const act = () =>
      this.act({
        title: "Cancel this request?",
        text: `${row.model}, for ${row.tenant || "its tenant"}: its client is told so.`,
        yes: "Cancel the request",
        own: true,
        call: () => ask(`roost/v1/requests/${encodeURIComponent(row.id)}`, { method: "DELETE", operator: true }),
        done: "The request is cancelled.",
      });
    const label = { type: "button", class: "button small", onclick: act };
    const element = el("button", label, "Cancel…");
    return {
      element,
      show: (item) => {
        row = item;
        element.setAttribute("aria-label", `Cancel the request of ${item.model}, ${item.doing}`);
      },
    };
  }

  /** Asks for a key where one is missing, asks whether it is meant, does it, and says what came of
   * it. `own` is for what everybody may do with what is his own. */
  async act({ title, text, yes, call, done, own = false }) {
    if (!own && this.view && !this.view.operator) {
      const why = "This needs the key of an operator: roost keys add NAME --role admin";
      if (!(await askForKeys(why))) return;
      await this.look();
    }
    if (!(await confirmed(title, text, yes))) return;
    try {
      await call();
      notice(done);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      notice(`Not done: ${error.message}`);
    }
    this.again(0);
  }
}

const FEEDLESS =
  "This gateway stands in front of servers that are not roost: it knows no more of their requests.";

function clock(ms) {
  return new Date(ms).toLocaleTimeString();
}

function figurePart() {
  const name = el("dt");
  const value = el("dd");
  return {
    element: el("div", {}, value, name),
    show: (item) => {
      write(name, item.name);
      write(value, item.value);
    },
  };
}

function hintPart() {
  const element = el("li");
  return { element, show: (item) => write(element, item.text) };
}

class NodeCard {
  constructor(fleet) {
    this.fleet = fleet;
    this.name = el("h3");
    this.chip = el("span", { class: "chip" });
    this.draining = el("span", { class: "chip warn" }, "draining");
    this.about = el("p", { class: "about" });
    this.busy = new Bar();
    this.memory = el("div");
    this.memoryParts = new Keyed(this.memory, () => new Bar());
    this.runtimes = el("ul", { class: "runtimes" });
    this.runtimeParts = new Keyed(this.runtimes, () => new RuntimeRow(this));
    this.others = el("p", { class: "about" });
    this.work = el("p", { class: "about" });
    this.button = el("button", { type: "button", class: "button small", onclick: () => this.drain() });
    this.element = el(
      "article",
      { class: "node" },
      el("header", {}, this.name, this.chip, this.draining, this.button),
      this.about,
      this.busy.element,
      this.memory,
      this.runtimes,
      this.others,
      this.work,
    );
  }

  show(node) {
    this.node = node;
    write(this.name, node.name);
    write(this.chip, node.state);
    toned(this.chip, "chip", node.tone);
    this.draining.hidden = !node.draining;
    write(this.about, node.about);
    this.busy.show({ name: "Requests", text: node.busy, percent: node.busyPercent });
    this.memoryParts.show(node.memory);
    this.runtimeParts.show(node.runtimes);
    write(this.others, node.others);
    write(this.work, node.work.join(" · "));
    write(this.button, node.draining ? "Take back…" : "Drain…");
    const label = `${node.draining ? "Take back" : "Drain"} ${node.name}`;
    this.button.setAttribute("aria-label", label);
    this.button.hidden = !node.here;
  }

  drain() {
    const { id, name, draining } = this.node;
    const verb = draining ? "undrain" : "drain";
    this.fleet.act({
      title: draining ? `Take ${name} back?` : `Drain ${name}?`,
      text: draining
        ? "It gets requests again."
        : "It gets nothing new, what runs there ends in peace, and its conversations move to others.",
      yes: draining ? "Take it back" : "Drain it",
      call: () => this.order(id, verb),
      done: draining ? `${name} is back.` : `${name} is draining.`,
    });
  }

  unload(runtime) {
    const { id, name } = this.node;
    this.fleet.act({
      title: `Unload ${runtime.model} on ${name}?`,
      text: "Its memory is freed. Whoever asks for it next waits until it is loaded again.",
      yes: "Unload it",
      call: () => this.order(id, "unload", { model: runtime.model }),
      done: `${runtime.model} is unloaded.`,
    });
  }

  order(id, verb, body) {
    const path = `roost/v1/nodes/${encodeURIComponent(id)}/${verb}`;
    return ask(path, { method: "POST", operator: true, body });
  }
}

class RuntimeRow {
  constructor(card) {
    this.name = el("strong");
    this.chip = el("span", { class: "chip" });
    this.about = el("span", { class: "about" });
    this.kv = new Bar();
    this.why = el("p", { class: "why" });
    const onclick = () => card.unload(this.runtime);
    this.button = el("button", { type: "button", class: "button small", onclick }, "Unload…");
    this.element = el(
      "li",
      {},
      el("div", { class: "runtime-head" }, this.name, this.chip, this.about, this.button),
      this.kv.element,
      this.why,
    );
  }

  show(runtime) {
    this.runtime = runtime;
    const { model, state, tone, slots, pace, pinned, ends, backend, why } = runtime;
    write(this.name, model);
    write(this.chip, state);
    toned(this.chip, "chip", tone);
    write(this.about, [backend, slots, pace, pinned && "pinned", ends].filter(Boolean).join(" · "));
    this.kv.element.hidden = runtime.kv === "";
    this.kv.show({ name: "KV", text: runtime.kv, percent: runtime.kvPercent });
    write(this.why, why);
    this.button.hidden = state !== "ready";
    this.button.setAttribute("aria-label", `Unload ${model}`);
  }
}
