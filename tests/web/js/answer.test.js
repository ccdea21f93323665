// One answer, from its events to its ending.

import assert from "node:assert/strict";
import test from "node:test";

import { Answer, stateOf, titleOf } from "./answer.js";

const data = (value) => ({ kind: "data", data: typeof value === "string" ? value : JSON.stringify(value) });
const delta = (value, finish = null) => data({ choices: [{ delta: value, finish_reason: finish }] });

function told(events, how = "end", begun = {}) {
  const answer = new Answer(begun);
  events.forEach((event, at) => answer.on(event, 1000 + 100 * at));
  answer.end(how);
  return answer;
}

test("a whole answer has text, reasoning, usage and facts", () => {
  const answer = told([
    delta({ role: "assistant", content: "" }),
    delta({ reasoning_content: "Hm. " }),
    delta({ content: "Hel" }),
    delta({ content: "lo" }),
    delta({}, "stop"),
    data({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 4 }, roost: { node: "n1" } }),
    data("[DONE]"),
  ]);
  assert.equal(answer.ending, "complete");
  const { text, thought, facts, rate } = answer.kept();
  assert.deepEqual([text, thought, facts], ["Hello", "Hm. ", { node: "n1" }]);
  assert.equal(rate, (1000 * 3) / 200);
});

test("only its last event makes an answer complete", () => {
  assert.equal(told([delta({ content: "Hel" })]).ending, "cut");
  assert.equal(told([delta({ content: "Hel" }, "stop")]).ending, "cut");
  assert.equal(told([data("[DONE]")]).ending, "cut");
  assert.equal(told([delta({ content: "Hel" }, "length"), data("[DONE]")]).ending, "length");
  assert.equal(told([delta({ content: "Hel" })], "lost").error.code, "cut");
});

test("an error event is the end, whatever follows", () => {
  const lost = { error: { code: "node_lost", message: "It left." } };
  const answer = told([delta({ content: "Hel" }), data(lost), delta({ content: "lo" }), data("[DONE]")]);
  assert.deepEqual([answer.ending, answer.text, answer.error.message], ["failed", "Hel", "It left."]);
  assert.match(titleOf(answer.error), /machine that was answering is gone/);
  assert.equal(titleOf({ code: "unheard_of" }), "The answer failed");
});

test("what was stopped is not called lost, and what was complete is not called stopped", () => {
  assert.equal(told([delta({ content: "Hel" })], "stopped").ending, "stopped");
  const whole = [delta({ content: "Hel" }, "stop"), data("[DONE]")];
  assert.equal(told(whole, "stopped").ending, "complete");
});

test("what is no JSON fails the answer and never the page", () => {
  assert.equal(told([data("{")]).error.code, "bad_stream");
});

test("an answer that is gone on with keeps what it had", () => {
  const begun = { text: "Once ", thought: "T" };
  const answer = told([delta({ content: "upon" }, "stop"), data("[DONE]")], "end", begun);
  assert.deepEqual([answer.text, answer.thought], ["Once upon", "T"]);
});

test("what the gateway says of a waiting request becomes a sentence", () => {
  assert.equal(stateOf("queued 2/5, about 3 s"), "Waiting in line: place 2 of 5, about 3 s");
  assert.equal(stateOf("queued 2/5"), "Waiting in line: place 2 of 5");
  assert.equal(stateOf("loading 40 %"), "The model is being loaded: 40 %");
  assert.equal(stateOf("prefill 20 %"), "Reading the conversation: 20 %");
  assert.match(stateOf("replayed after n1 at token 7"), /n1 was lost; another machine goes on at token 7/);
  assert.equal(stateOf("answering"), "");
  const answer = new Answer();
  answer.on({ kind: "comment", text: "queued 1/1" }, 0);
  answer.on({ kind: "comment", text: "" }, 1);
  assert.match(answer.state, /place 1 of 1/);
  answer.on(delta({ content: "x" }), 2);
  assert.equal(answer.state, "");
});
