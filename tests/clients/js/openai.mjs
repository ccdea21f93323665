// The official SDK: whole, streamed, tools, vectors asked of a model without any, errors, retries, leaving.
import OpenAI from "openai";
import { CALL, MOST, OVERFLOW, PIECES, SCHEMA, TALE, assert, isText, key, model, oneAtOnce, saying, scripted, url } from "./ask.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const ask = (content, more = {}) => ({ model, max_tokens: MOST, messages: [{ role: "user", content }], ...more });

assert.ok((await client.models.list()).data.some((one) => one.id === model));
const whole = await client.chat.completions.create(ask(saying(PIECES)));
isText(whole.choices[0].message.content);
assert.ok(whole.usage.prompt_tokens > 0 && whole.usage.completion_tokens > 0);

let text = "", usage = null, reason = null;
const streamed = await client.chat.completions.create(
  ask(saying(PIECES), { stream: true, stream_options: { include_usage: true } }),
);
for await (const chunk of streamed) {
  text += chunk.choices[0]?.delta?.content ?? "";
  reason = chunk.choices[0]?.finish_reason ?? reason;
  usage = chunk.usage ?? usage;
}
isText(text);
assert.ok(["stop", "length"].includes(reason) && usage.total_tokens > 0);

if (scripted) {
  const tools = [{ type: "function", function: { name: "weather", parameters: SCHEMA } }];
  const called = await client.chat.completions.create(
    ask(saying(CALL), { tools, max_tokens: 200 }),
  );
  const call = called.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, "weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  const after = await client.chat.completions.create(ask("", {
    tools,
    messages: [
      { role: "user", content: "Weather?" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "sunny" },
      { role: "user", content: saying(PIECES) },
    ],
  }));
  isText(after.choices[0].message.content);
}

const response = await client.responses.create({ model, input: saying(PIECES), max_output_tokens: MOST });
isText(response.output_text);

await assert.rejects(client.chat.completions.create(ask("x", { model: "nope" })), (error) => error.status === 404);
await assert.rejects(client.chat.completions.create(ask("x", { temperature: 9 })), (error) => error.status === 400);
await assert.rejects(client.chat.completions.create(ask(OVERFLOW)), (error) =>
  error.status === 400 && error.code === "context_length_exceeded" && /prompt is too long/.test(error.message));
await assert.rejects(new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list(),
  (error) => error.status === 401);

// One request at once with this key: the second is refused, waits as long as it was told, and is served.
const first = await new OpenAI({ baseURL: `${url}/v1`, apiKey: oneAtOnce, maxRetries: 0 })
  .chat.completions.create(ask(TALE, { stream: true, max_tokens: 2000 }));
for await (const chunk of first) if (chunk.choices[0]?.delta?.content) break;
first.controller.abort();
const patient = new OpenAI({ baseURL: `${url}/v1`, apiKey: oneAtOnce, maxRetries: 4 });
isText((await patient.chat.completions.create(ask(saying(PIECES)))).choices[0].message.content);

// Who leaves in mid-stream leaves nothing: whoever runs this looks.
const left = await client.chat.completions.create(ask(TALE, { stream: true, max_tokens: 2000 }));
for await (const chunk of left) if (chunk.choices[0]?.delta?.content) break;
left.controller.abort();
