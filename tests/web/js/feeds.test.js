// What the views of the fleet and of system 1 show, and what a request waits for.

import assert from "node:assert/strict";
import test from "node:test";

import { viewOf } from "./fleet_model.js";
import { stripOf, workerOf } from "./stats_model.js";
import { TurnReader, clamped, estimated } from "./turn.js";
import { waitingFor } from "./waits.js";

const NODE = {
  id: "n1",
  name: "attic",
  state: "alive",
  in_flight: 1,
  max_in_flight: 4,
  draining: false,
  takes_wants: true,
  load_1m: 0.5,
  models: [{ model: "a" }, { model: "b" }, { model: "c" }],
  about: { processor: { model: "EPYC", usable: 2 }, devices: [{ name: "H200" }] },
  memory: { devices: [{ name: "host", capacity_bytes: 4096, available_bytes: 1024, managed_bytes: 2048, pressure: "hard" }] },
  pulls: [{ source: "hf:x/y", stage: "download", done_bytes: 1, total_bytes: 4 }],
  runtimes: [
    {
      ...{ runtime: "a#1", model: "a", backend: "scripted", state: "ready", ctx: 100, progress: null },
      ...{ slots: [{ busy: true, tokens: 50 }, { busy: false, tokens: 0 }], failure: null, pinned: true },
      ...{ unload_in_s: null, vitals: { decode_tokens_per_s: 31.4, anomalies: ["slow_decode"] } },
    },
    {
      ...{ runtime: null, model: "b", backend: "scripted", state: "loading", ctx: 0, progress: 0.42 },
      ...{ slots: [], failure: null, pinned: false, unload_in_s: 60, vitals: null },
    },
    { runtime: null, model: "c", backend: "x", state: "absent", slots: [], ctx: 0 },
  ],
};
const ROW = { id: "r1", model: "a", started_ms: 1, elapsed_seconds: 3, phase_seconds: 1, node: "n1", tenant: "key:ann" };
const FEED = {
  role: "admin",
  uptime_seconds: 61,
  totals: { completed: 1, errors: 2, cancelled: 3, output_tokens: 4, cached_tokens: 1, prompt_tokens: 4 },
  requests: [
    { ...ROW, state: "prefill", doing: "prefill 20 %", prompt_tokens: null },
    { ...ROW, id: "r2", state: "error", prompt_tokens: 9, cached_tokens: 4, output_tokens: 2, first_output_seconds: null, decode_tokens_per_second: null },
  ],
  queue: { length: 1, tenants: [{ tenant: "key:ann", waiting: 1, running: 1, oldest_seconds: null, cost_tokens: 20 }] },
  events: [{ id: 7, at_ms: 1, level: "warning", event: "node_left", times: 3, facts: { node: "n2" } }],
  anomalies: [{ kind: "slow_decode", text: "too slow", node: "n1", model: "a" }],
};
const FLEET = { nodes: [NODE], statistics: { running: 1, waiting: 1 } };

test("a fleet with its feed", () => {
  const view = viewOf(FLEET, FEED);
  assert.equal(view.operator, true);
  const figures = Object.fromEntries(view.figures);
  assert.deepEqual([figures.Machines, figures.Cached, figures["Up for"]], ["1 of 1", "25 %", "1 min 1 s"]);
  const [node] = view.nodes;
  assert.deepEqual([node.name, node.tone, node.busy, node.busyPercent], ["attic", "good", "1 of 4", 25]);
  assert.equal(node.about, "n1 · EPYC, 2 cores · H200 · load 0.5");
  assert.deepEqual(node.memory[0], { key: "host", name: "Memory", text: "3.0 KiB of 4.0 KiB, models 2.0 KiB", percent: 75, tone: "bad" });
  const [ready, loading] = node.runtimes;
  assert.deepEqual([ready.tone, ready.kv, ready.kvPercent, ready.slots], ["warn", "50 of 200 tokens", 25, "1 of 2 slots"]);
  assert.equal(ready.why, "slow decode");
  assert.deepEqual([loading.state, loading.ends], ["loading 42 %", "unloads in 1 min 0 s"]);
  assert.equal(node.others, "Could load: c");
  assert.deepEqual(node.work, ["fetching hf:x/y: 25 %"]);
  assert.deepEqual(view.live.map((row) => [row.doing, row.tokens]), [["prefill 20 %", "–"]]);
  assert.deepEqual(view.recent.map((row) => [row.ended, row.tone, row.tokens, row.first]), [["failed", "bad", "9 (4 cached) → 2", "–"]]);
  assert.deepEqual([view.tenants[0].oldest, view.events[0].what, view.events[0].times], ["–", "node left", "× 3"]);
  assert.equal(view.hints[0].text, "a on n1: too slow");
});

test("a gateway without a feed, and a node of which little is known", () => {
  const bare = { ...NODE, name: "n1", takes_wants: false, state: "dead", about: null, memory: null, pulls: null, runtimes: [], load_1m: null, max_in_flight: 0 };
  const statistics = { running: 0, waiting: 0, served: 5, rejected: 1, unavailable: 2 };
  const view = viewOf({ nodes: [bare], statistics }, null);
  assert.equal(view.hasFeed, false);
  assert.deepEqual(Object.fromEntries(view.figures), { Machines: "0 of 1", Running: "0", Waiting: "0", Served: "5", Refused: "3" });
  const [{ here, state, busy, about, others }] = view.nodes;
  assert.deepEqual([here, state, busy, about, others], [false, "gone", "1", "", "Models: a, b, c"]);
});

test("a request finds its row by its model and its age", () => {
  const rows = [
    { model: "a", state: "waiting", elapsed_seconds: 30, doing: "queued 1/2" },
    { model: "a", state: "waiting", elapsed_seconds: 4.2, doing: "queued 2/2, about 9 s" },
    { model: "a", state: "streaming", elapsed_seconds: 4, doing: "answering" },
    { model: "b", state: "prefill", elapsed_seconds: 4, doing: "prefill 5 %" },
  ];
  assert.equal(waitingFor(rows, "a", 4), "Waiting in line: place 2 of 2, about 9 s");
  assert.equal(waitingFor(rows, "b", 4), "Reading the conversation: 5 %");
  assert.equal(waitingFor(rows, "a", 15), "");
  assert.equal(waitingFor(rows, "c", 4), "");
});

test("system 1's figures", () => {
  const cluster = {
    ...{ alive: 1, total_sessions: 1, max_total_sessions: 2, session_capacity_pct: 50, in_flight_decodes: 0 },
    ...{ total_kv_cache_bytes: 2048, max_total_kv_cache_bytes: 0, kv_cache_capacity_pct: null, max_in_flight_decodes: 32 },
  };
  const session = { session_id: "s", model: "m", kv_cache_bytes: null, idle_ms: 1500, max_tokens: 9 };
  const worker = { id: "w", status: "alive", url: null, health: { draining: true }, sessions: [session] };
  const strip = Object.fromEntries(stripOf({ cluster, workers: [worker] }));
  assert.deepEqual(strip, { "Alive workers": "1 of 1", Sessions: "1 / 2 (50 %)", KV: "2.0 KiB / –", Decodes: "0 / 32" });
  const shown = workerOf(worker);
  assert.deepEqual([shown.opens, shown.told, shown.draining, shown.sessions[0].idle], [true, "1 session", true, "1.5 s"]);
  const silent = workerOf({ id: "w", status: "dead", sessions: [], sessions_error: "timeout" });
  assert.deepEqual([silent.opens, silent.tone, silent.error], [false, "bad", "timeout"]);
});

test("a turn of system 1 ends once, with its reason", () => {
  const turn = (...events) => {
    const reader = new TurnReader();
    for (const event of events) reader.on(typeof event === "string" ? event : JSON.stringify(event));
    reader.close();
    return reader;
  };
  const whole = turn({ token: "a", seq: 0 }, { token: "b", seq: 1 }, { finished: true, reason: "stop", seq: 2 });
  assert.deepEqual([whole.text, whole.tokens, whole.reason, whole.error], ["ab", 2, "stop", ""]);
  const failed = turn({ token: "a", seq: 0 }, { error: "Worker decode failed" }, { token: "b", seq: 1 });
  assert.deepEqual([failed.text, failed.error], ["a", "Worker decode failed"]);
  assert.match(turn({ token: "a", seq: 0 }).error, /broke off/);
  assert.match(turn("{").error, /no event/);
  assert.deepEqual(["0", "50.4", "9999", "x", ""].map(clamped), [1, 50, 1000, 50, 1]);
  assert.equal(estimated("12345"), 2);
});
