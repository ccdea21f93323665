// Conversations as a browser keeps them.

import assert from "node:assert/strict";
import test from "node:test";

import { Shelf, fileName, idOf, markdownOf, newTalk, promptOf, requestFor, titleFor } from "./talks.js";

/** What `localStorage` is, with a limit of entries in the place of one of bytes. */
class Storage {
  constructor(most = Infinity) {
    this.map = new Map();
    this.most = most;
  }
  get length() {
    return this.map.size;
  }
  key(at) {
    return [...this.map.keys()][at] ?? null;
  }
  getItem(key) {
    return this.map.get(key) ?? null;
  }
  setItem(key, value) {
    if (this.map.size >= this.most && !this.map.has(key)) throw new Error("QuotaExceededError");
    this.map.set(key, value);
  }
  removeItem(key) {
    this.map.delete(key);
  }
}

const talkWith = (...messages) => ({ ...newTalk("t", 5, "m"), messages });
const user = (text) => ({ role: "user", text });
const model = (text, ending = "complete") => ({ role: "assistant", text, ending, model: "m" });

test("what is kept comes back, newest first", () => {
  const shelf = new Shelf(new Storage());
  assert.ok(shelf.save({ ...newTalk("a", 1, "m"), title: "A" }));
  assert.ok(shelf.save({ ...newTalk("b", 2, "m"), title: "B" }));
  assert.deepEqual(shelf.all().map((one) => one.title), ["B", "A"]);
  shelf.remove("b");
  assert.deepEqual(shelf.all().map((one) => one.id), ["a"]);
  assert.equal(shelf.get("b"), null);
});

test("a full storage is told, and what cannot be read harms nobody", () => {
  const storage = new Storage(2);
  storage.setItem("roost.talk.bad", "{");
  storage.setItem("roost.talk.odd", '{"version":1,"id":"odd","messages":"none"}');
  const shelf = new Shelf(storage);
  assert.equal(shelf.save(newTalk("a", 1, "m")), false);
  assert.deepEqual(shelf.all(), []);
  assert.equal(idOf("roost.talk.x"), "x");
  assert.equal(idOf("roost.key"), null);
  assert.equal(idOf(null), null);
});

test("a model is given turns: nothing empty, and nobody twice in a row", () => {
  const talk = talkWith(user("one"), model("", "failed"), user("two"), model("half", "cut"), user("three"));
  talk.options.system = " Be brief. ";
  assert.deepEqual(promptOf(talk), [
    { role: "system", content: "Be brief." },
    { role: "user", content: "one\n\ntwo" },
    { role: "assistant", content: "half" },
    { role: "user", content: "three" },
  ]);
  assert.equal(talk.messages[0].text, "one");
});

test("options reach the request only where somebody has set them", () => {
  const talk = talkWith(user("hi"));
  assert.deepEqual(Object.keys(requestFor(talk)), ["model", "messages", "stream", "stream_options"]);
  talk.options = { temperature: 0, maxTokens: 7 };
  const { temperature, max_tokens: most } = requestFor(talk);
  assert.deepEqual([temperature, most], [0, 7]);
});

test("a title is the beginning of what was said, by letters", () => {
  assert.equal(titleFor("  Why \n is it? "), "Why is it?");
  const long = titleFor("😀".repeat(100));
  assert.equal(Array.from(long).length, 60);
  assert.ok(long.endsWith("…"));
});

test("an export says what was not complete", () => {
  const text = markdownOf({ ...talkWith(user("hi"), { ...model("he", "stopped"), thought: "a\nb" }), title: "T" });
  assert.ok(text.startsWith("# T\n\n## You\n\nhi\n\n## m\n\n> a\n> b\n\nhe\n\n*(not complete: stopped)*"));
  assert.equal(fileName("Wie heißt ../das?", "md"), "wie-heißt-das.md");
  assert.equal(fileName("…", "json"), "conversation.json");
});
