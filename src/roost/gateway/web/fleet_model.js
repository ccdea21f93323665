// What the fleet view shows, out of `/roost/v1/fleet` and the feed. Pure.

import { bytes, count, percent, rate, seconds, several } from "./words.js";

const STATES = {
  alive: ["alive", "good"],
  suspect: ["suspect", "warn"],
  stale: ["stale", "warn"],
  dead: ["gone", "bad"],
};
const RUNNING = new Set(["waiting", "prefill", "streaming"]);
const ENDED = {
  done: ["done", ""],
  length: ["at its limit", ""],
  tool_calls: ["calls a tool", ""],
  cancelled: ["cancelled", "warn"],
  error: ["failed", "bad"],
};

/** Everything that is shown. `feed` is null where the gateway has none. */
export function viewOf(fleet, feed) {
  const requests = feed?.requests ?? [];
  return {
    operator: feed?.role === "admin",
    figures: figures(fleet, feed),
    hints: (feed?.anomalies ?? []).map((one) => hint(one)),
    nodes: fleet.nodes.map(nodeView),
    live: requests.filter((one) => RUNNING.has(one.state)).map(liveView),
    recent: requests.filter((one) => !RUNNING.has(one.state)).map(recentView),
    tenants: (feed?.queue?.tenants ?? []).map(tenantView),
    events: (feed?.events ?? []).map(eventView),
    hasFeed: feed !== null,
  };
}

function figures(fleet, feed) {
  const { nodes, statistics } = fleet;
  const alive = nodes.filter((node) => node.state === "alive").length;
  const told = [
    ["Machines", `${alive} of ${nodes.length}`],
    ["Running", count(statistics.running)],
    ["Waiting", count(statistics.waiting)],
  ];
  if (!feed) {
    return told.concat([
      ["Served", count(statistics.served)],
      ["Refused", count((statistics.rejected ?? 0) + (statistics.unavailable ?? 0))],
    ]);
  }
  const { totals } = feed;
  const cached = percent(totals.cached_tokens, totals.prompt_tokens);
  return told.concat([
    ["Answered", count(totals.completed)],
    ["Failed", count(totals.errors)],
    ["Cancelled", count(totals.cancelled)],
    ["Tokens said", count(totals.output_tokens)],
    ["Cached", cached === null ? "–" : `${cached} %`],
    ["Up for", seconds(feed.uptime_seconds)],
  ]);
}

function hint({ kind, text, node, model }) {
  const where = [model, node].filter(Boolean).join(" on ");
  return { key: `${kind}/${node}/${model}`, text: where === "" ? text : `${where}: ${text}` };
}

function nodeView(node) {
  const [word, tone] = STATES[node.state] ?? [node.state, "warn"];
  const runtimes = node.runtimes.filter((one) => one.state !== "absent");
  const loaded = new Set(runtimes.map((one) => one.model));
  const load = node.load_1m === null ? "" : `load ${node.load_1m.toFixed(1)}`;
  return {
    key: node.id,
    id: node.id,
    name: node.name || node.id,
    state: word,
    tone,
    here: node.state !== "dead",
    draining: node.draining,
    busy: node.max_in_flight > 0 ? `${node.in_flight} of ${node.max_in_flight}` : `${node.in_flight}`,
    busyPercent: percent(node.in_flight, node.max_in_flight) ?? 0,
    memory: (node.memory?.devices ?? []).map(deviceView),
    runtimes: runtimes.map(runtimeView),
    about: [node.id === node.name ? "" : node.id, machine(node.about), load].filter(Boolean).join(" · "),
    others: others(node, loaded),
    work: [...work(node)],
  };
}

function others({ models, takes_wants: loads }, loaded) {
  const named = models.map((one) => one.model).filter((model) => !loaded.has(model));
  if (named.length === 0) return "";
  return `${loads ? "Could load" : "Models"}: ${named.join(", ")}`;
}

function machine(about) {
  if (!about) return "";
  const { processor, devices = [] } = about;
  const cores = `${processor.model || "processor"}, ${several(processor.usable, "core")}`;
  return [cores, ...devices.map((one) => one.name ?? "accelerator")].join(" · ");
}

function deviceView(device) {
  const { name, capacity_bytes: whole, available_bytes: free, managed_bytes: ours, pressure } = device;
  const used = whole === null || free === null ? null : whole - free;
  return {
    key: name,
    name: name === "host" ? "Memory" : name,
    text: `${bytes(used)} of ${bytes(whole)}, models ${bytes(ours)}`,
    percent: percent(used, whole) ?? 0,
    tone: { soft: "warn", hard: "bad", emergency: "bad" }[pressure] ?? "",
  };
}

function runtimeView(runtime) {
  const { model, backend, state, slots, ctx, vitals, progress } = runtime;
  const busy = slots.filter((slot) => slot.busy).length;
  const held = slots.reduce((sum, slot) => sum + slot.tokens, 0);
  const room = ctx * slots.length;
  const odd = vitals?.anomalies ?? [];
  return {
    key: runtime.runtime || model,
    model,
    backend,
    state: progress === null || state !== "loading" ? state : `loading ${Math.round(100 * progress)} %`,
    tone: state === "ready" ? (odd.length > 0 ? "warn" : "good") : state === "failed" ? "bad" : "warn",
    why: runtime.failure ?? odd.map((one) => one.replaceAll("_", " ")).join(", "),
    slots: slots.length > 0 ? `${busy} of ${slots.length} slots` : "",
    kv: room > 0 ? `${count(held)} of ${count(room)} tokens` : "",
    kvPercent: percent(held, room) ?? 0,
    pace: vitals?.decode_tokens_per_s > 0 ? rate(vitals.decode_tokens_per_s) : "",
    pinned: runtime.pinned,
    ends: runtime.unload_in_s === null ? "" : `unloads in ${seconds(runtime.unload_in_s)}`,
  };
}

function* work(node) {
  for (const pull of node.pulls ?? []) {
    const share = percent(pull.done_bytes, pull.total_bytes);
    if (pull.stage === "failed") yield `${pull.source} was not fetched: ${pull.failure}`;
    else if (pull.stage !== "done") yield `fetching ${pull.source}${share === null ? "" : `: ${share} %`}`;
  }
}

function liveView(row) {
  return {
    key: row.id,
    id: row.id,
    model: row.model,
    doing: row.doing || row.state,
    tone: row.state === "streaming" ? "good" : "warn",
    age: seconds(row.elapsed_seconds),
    phase: seconds(row.phase_seconds),
    node: row.node ?? "–",
    tokens: tokens(row),
    tenant: row.tenant ?? "",
  };
}

function recentView(row) {
  const [word, tone] = ENDED[row.state] ?? [row.state, ""];
  return {
    key: row.id,
    id: row.id,
    model: row.model,
    ended: word,
    tone,
    took: seconds(row.elapsed_seconds),
    first: seconds(row.first_output_seconds),
    pace: rate(row.decode_tokens_per_second),
    node: row.node ?? "–",
    tokens: tokens(row),
    tenant: row.tenant ?? "",
  };
}

function tokens({ prompt_tokens: prompt, cached_tokens: cached, output_tokens: said }) {
  if (prompt === null || prompt === undefined) return "–";
  return `${count(prompt)}${cached ? ` (${count(cached)} cached)` : ""} → ${count(said ?? 0)}`;
}

function tenantView(line) {
  return {
    key: line.tenant,
    tenant: line.tenant,
    waiting: count(line.waiting),
    running: count(line.running),
    oldest: line.oldest_seconds === null ? "–" : seconds(line.oldest_seconds),
    cost: count(line.cost_tokens),
  };
}

function eventView(row) {
  const facts = Object.entries(row.facts).map(([name, value]) => `${name} ${value}`);
  return {
    key: String(row.id),
    at: row.at_ms,
    what: row.event.replaceAll("_", " "),
    facts: facts.join(" · "),
    times: row.times > 1 ? `× ${row.times}` : "",
    tone: { warning: "warn", error: "bad" }[row.level] ?? "",
  };
}
