// Events out of pieces, wherever the pieces are cut.

import assert from "node:assert/strict";
import test from "node:test";

import { EventReader } from "./sse.js";

const STREAM = ': queued 1/2\n\ndata: {"a":1}\n\nevent: x\ndata: one\ndata:two\nid: 7\n\r\ndata: last\r\n\r\n';
const EVENTS = [
  { kind: "comment", text: "queued 1/2" },
  { kind: "data", data: '{"a":1}' },
  { kind: "data", data: "one\ntwo" },
  { kind: "data", data: "last" },
];

test("every cut gives the same events", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const reader = new EventReader();
    const events = [...reader.push(STREAM.slice(0, cut)), ...reader.push(STREAM.slice(cut))];
    assert.deepEqual(events, EVENTS, `cut at ${cut}`);
  }
  const slow = new EventReader();
  assert.deepEqual([...STREAM].flatMap((letter) => slow.push(letter)), EVENTS);
});

test("an event without its empty line has not happened", () => {
  assert.deepEqual(new EventReader().push("data: half\n"), []);
});

test("a line without end does not fill the memory", () => {
  const reader = new EventReader();
  assert.throws(() => {
    for (let i = 0; i < 10; i += 1) reader.push("x".repeat(1024 * 1024));
  }, /too long/);
});
