// One rate of system 2's sweep, for people who use k6: an open loop of chats at a constant rate,
// counted as admitted (200) and shed (429), with the latency of what was served.
//
//   GATEWAY=127.0.0.1:9000 RATE=12 k6 run bench/k6/load.js
//
// GATEWAY   host:port of the gateway                        127.0.0.1:7878
// MODEL     who is asked; without it the first of /v1/models
// RATE      iterations begun per UNIT                       12
// UNIT      as k6 writes times                              1m
// DURATION  how long the rate is offered                    180s
// TOKENS    of an answer                                    32
// PROMPT    said by every iteration; without it each says another one, so that no cache helps
// NAME, OUT what the result is called, and the file it goes to
// KEY       API key, if the gateway wants one

import http from "k6/http";
import exec from "k6/execution";
import { Counter, Trend } from "k6/metrics";

const gateway = `http://${__ENV.GATEWAY || "127.0.0.1:7878"}`;
const rate = Number(__ENV.RATE || 12);
const unit = __ENV.UNIT || "1m";
const duration = __ENV.DURATION || "180s";
const tokens = Number(__ENV.TOKENS || 32);
const name = __ENV.NAME || `${rate}/${unit}`;
const headers = { "content-type": "application/json" };
if (__ENV.KEY) headers.authorization = `Bearer ${__ENV.KEY}`;

const admitted = new Counter("admitted");
const shed = new Counter("shed");
const failed = new Counter("failed");
const served = new Trend("served_latency", true);

export const options = {
  scenarios: {
    sweep: {
      executor: "constant-arrival-rate",
      rate,
      timeUnit: unit,
      duration,
      preAllocatedVUs: 100,
      maxVUs: 800,
      gracefulStop: __ENV.GRACE || "30s",
    },
  },
  summaryTrendStats: ["min", "med", "avg", "p(90)", "p(95)", "p(99)", "max"],
};

export function setup() {
  if (__ENV.MODEL) return { model: __ENV.MODEL };
  const listed = http.get(`${gateway}/v1/models`, { headers });
  const first = listed.status === 200 ? listed.json("data.0.id") : null;
  if (!first) exec.test.abort(`${gateway} lists no model: set MODEL, or start one`);
  return { model: first };
}

export default function (found) {
  const number = exec.scenario.iterationInTest;
  const said = __ENV.PROMPT || `${number} ${Math.random()}: tell of a river and a stone.`;
  const body = {
    model: found.model,
    messages: [{ role: "user", content: said }],
    max_tokens: tokens,
    temperature: 0,
  };
  const url = `${gateway}/v1/chat/completions`;
  const reply = http.post(url, JSON.stringify(body), { headers, timeout: "600s" });
  if (reply.status === 200) {
    admitted.add(1);
    served.add(reply.timings.duration);
  } else if (reply.status === 429) {
    shed.add(1);
  } else {
    failed.add(1);
  }
}

// The counts are those that `roost bench report` reads: k6's results and its own, side by side.
export function handleSummary(data) {
  const count = (metric) => (data.metrics[metric] ? data.metrics[metric].values.count : 0);
  const found = data.metrics.served_latency ? data.metrics.served_latency.values : {};
  const latency = {
    min: found.min,
    p50: found.med,
    mean: found.avg,
    p90: found["p(90)"],
    p95: found["p(95)"],
    p99: found["p(99)"],
    max: found.max,
  };
  const result = {
    name,
    rate,
    unit,
    duration,
    ok: count("admitted"),
    shed: count("shed"),
    failed: count("failed"),
    dropped: count("dropped_iterations"),
    e2e_ms: result_or_null(found, latency),
    environment: { at: new Date().toISOString(), tool: "k6" },
    workload: { url: gateway, max_tokens: tokens, prompt: __ENV.PROMPT || "another each time" },
  };
  const p99 = result.e2e_ms ? `${(latency.p99 / 1000).toFixed(2)} s` : "-";
  const line = `${name}: ${result.ok} admitted, ${result.shed} shed, ${result.failed} failed, `;
  const files = { stdout: `${line}p99 ${p99}\n` };
  if (__ENV.OUT) files[__ENV.OUT] = `${JSON.stringify(result, null, 1)}\n`;
  return files;
}

function result_or_null(found, latency) {
  return found.max === undefined ? null : latency;
}
