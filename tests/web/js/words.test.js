// Figures as people read them.

import assert from "node:assert/strict";
import test from "node:test";

import { ago, bytes, count, percent, rate, seconds, several } from "./words.js";

test("what nobody knows is a dash and never 0", () => {
  for (const show of [count, bytes, seconds, rate]) {
    assert.equal(show(null), "–");
    assert.equal(show(undefined), "–");
    assert.equal(show(NaN), "–");
  }
  assert.equal(percent(null, 5), null);
  assert.equal(percent(1, 0), null);
});

test("figures have the size that they need", () => {
  assert.deepEqual([0, 9999, 12_345, 123_456, 1_234_567].map(count), ["0", "9999", "12.3k", "123k", "1.2M"]);
  assert.deepEqual([0, 1023, 1024, 150 * 1024, 25_276_502_016].map(bytes), ["0 B", "1023 B", "1.0 KiB", "150 KiB", "23.5 GiB"]);
  assert.deepEqual([0.25, 12, 61, 3700, 90_000].map(seconds), ["0.3 s", "12 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
  assert.deepEqual([31.44, 1783.2].map(rate), ["31.4 tok/s", "1783 tok/s"]);
  assert.deepEqual([several(1, "token"), several(2, "token")], ["1 token", "2 tokens"]);
  assert.deepEqual([percent(1, 3), percent(9, 3), percent(-1, 3)], [33, 100, 0]);
});

test("times are told from now, and a clock that went back says just now", () => {
  const minute = 60_000;
  const past = [0, -minute, 5 * minute, 120 * minute, 1500 * minute, 5000 * minute];
  const told = past.map((ms) => ago(10_000 * minute - ms, 10_000 * minute));
  assert.deepEqual(told, ["just now", "just now", "5 min ago", "2 h ago", "yesterday", "3 days ago"]);
});
