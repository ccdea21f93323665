// What the stats page shows, out of `/coordinator/stats`. Pure.

import { bytes, count, seconds, several } from "./words.js";

/** The strip over the workers, as names and values. */
export function stripOf({ cluster, workers }) {
  const share = (pct) => (pct === null || pct === undefined ? "" : ` (${Math.round(pct)} %)`);
  const { total_sessions: sessions, max_total_sessions: most } = cluster;
  const { total_kv_cache_bytes: kv, max_total_kv_cache_bytes: room } = cluster;
  return [
    ["Alive workers", `${cluster.alive} of ${workers.length}`],
    ["Sessions", `${count(sessions)} / ${count(most)}${share(cluster.session_capacity_pct)}`],
    ["KV", `${bytes(kv)} / ${room ? bytes(room) : "–"}${share(cluster.kv_cache_capacity_pct)}`],
    ["Decodes", `${count(cluster.in_flight_decodes)} / ${count(cluster.max_in_flight_decodes)}`],
  ];
}

/** One worker; `opens` is whether it is open until somebody says otherwise. */
export function workerOf(worker) {
  const sessions = worker.sessions ?? [];
  const tone = { alive: "good", stale: "warn" }[worker.status] ?? "bad";
  return {
    key: worker.id,
    id: worker.id,
    status: worker.status,
    tone,
    draining: Boolean(worker.health?.draining),
    url: worker.url ?? "",
    error: worker.sessions_error ?? "",
    opens: sessions.length > 0,
    told: worker.sessions_error ? "sessions not known" : several(sessions.length, "session"),
    sessions: sessions.map((one) => ({
      key: one.session_id,
      id: one.session_id,
      model: one.model,
      kv: bytes(one.kv_cache_bytes),
      idle: one.idle_ms === null ? "–" : seconds(one.idle_ms / 1000),
      most: count(one.max_tokens),
    })),
  };
}
