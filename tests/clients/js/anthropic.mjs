// The official SDK of the other API: whole, streamed, tools, counts, errors, retries, leaving.
import Anthropic from "@anthropic-ai/sdk";
import { CALL, MOST, OVERFLOW, PIECES, SCHEMA, TALE, assert, isText, key, model, oneAtOnce, saying, scripted, url } from "./ask.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const ask = (content, more = {}) => ({ model, max_tokens: MOST, messages: [{ role: "user", content }], ...more });

const counted = await client.messages.countTokens({ model, messages: [{ role: "user", content: saying(PIECES) }] });
const whole = await client.messages.create(ask(saying(PIECES)));
isText(whole.content[0].text);
const used = whole.usage;
assert.equal(
  used.input_tokens + (used.cache_read_input_tokens ?? 0) + (used.cache_creation_input_tokens ?? 0),
  counted.input_tokens,
);

const streamed = client.messages.stream(ask(saying(PIECES)));
let text = "";
streamed.on("text", (piece) => { text += piece; });
const final = await streamed.finalMessage();
isText(text);
assert.ok(["end_turn", "max_tokens"].includes(final.stop_reason));

if (scripted) {
  const tools = [{ name: "weather", input_schema: SCHEMA }];
  const called = await client.messages.create(ask(saying(CALL), { tools, max_tokens: 200 }));
  const use = called.content.find((block) => block.type === "tool_use");
  assert.equal(called.stop_reason, "tool_use");
  assert.deepEqual(use.input, { city: "naïve 😀" });
  const after = await client.messages.create(ask("", {
    tools,
    messages: [
      { role: "user", content: "Weather?" },
      { role: "assistant", content: [use] },
      { role: "user", content: [
        { type: "tool_result", tool_use_id: use.id, content: "sunny" },
        { type: "text", text: saying(PIECES) },
      ] },
    ],
  }));
  isText(after.content[0].text);
}

await assert.rejects(client.messages.create(ask("x", { model: "nope" })), (error) => error.status === 404);
await assert.rejects(client.messages.create(ask(OVERFLOW)), (error) =>
  error.status === 400 && /prompt is too long: \d+ tokens > \d+ maximum/.test(error.message));
await assert.rejects(new Anthropic({ baseURL: url, apiKey: "wrong", maxRetries: 0 }).messages.create(ask("x")),
  (error) => error.status === 401);

const busy = new Anthropic({ baseURL: url, apiKey: oneAtOnce, maxRetries: 0 })
  .messages.stream(ask(TALE, { max_tokens: 2000 }));
await new Promise((resolve) => { busy.once("text", resolve); });
await assert.rejects(
  new Anthropic({ baseURL: url, apiKey: oneAtOnce, maxRetries: 0 }).messages.create(ask("x")),
  (error) => error.status === 429 && error.headers.get("retry-after") === "2",
);
busy.abort();
await busy.done().catch(() => {});
const patient = new Anthropic({ baseURL: url, apiKey: oneAtOnce, maxRetries: 4 });
isText((await patient.messages.create(ask(saying(PIECES)))).content[0].text);

const left = client.messages.stream(ask(TALE, { max_tokens: 2000 }));
await new Promise((resolve) => { left.once("text", resolve); });
left.abort();
await left.done().catch(() => {});
