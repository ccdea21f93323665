// What every client program here is told, and how it is checked: URL MODEL KIND, keys in the environment.
import assert from "node:assert/strict";

export const [url, model, kind] = process.argv.slice(2);
export const scripted = kind === "scripted";
export const key = process.env.CLIENT_KEY;
export const oneAtOnce = process.env.ONE_AT_ONCE_KEY;
// A real model has said enough after a few tokens.
export const MOST = scripted ? 64 : 8;
export const TEXT = "naïve 😀 歪 שלום";
export { assert };

// The scripted backend says what its prompt asks for; a real model whatever it likes.
export function saying(pieces, more = {}) {
  return scripted ? `@script ${JSON.stringify({ pieces, ...more })}` : "Say hello.";
}

export function isText(text) {
  if (scripted) assert.equal(text, TEXT);
  else assert.ok(text.length > 0, "it says something");
}

export const PIECES = ["naïve ", "😀 ", "歪 ", "שלום"];
export const LONG = saying(Array(200).fill("word "), { delay_ms: 50 });
export const TALE = scripted ? LONG : "Tell a very long story of a fox, with every detail.";
export const CALL = ['<tool_call>{"name": "weather", "arguments": {"city": "', 'naïve 😀"}}</tool_call>'];
export const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const OVERFLOW = "word ".repeat(20_000);
