// Vercel's AI SDK over its provider for servers like OpenAI's: whole, streamed, tools, objects, errors, leaving.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { CALL, MOST, PIECES, SCHEMA, TALE, assert, isText, key, model, saying, scripted, url } from "./ask.mjs";

const provider = createOpenAICompatible({ name: "roost", baseURL: `${url}/v1`, apiKey: key, includeUsage: true });
const base = { model: provider(model), maxRetries: 0, maxOutputTokens: MOST };

const whole = await generateText({ ...base, prompt: saying(PIECES) });
isText(whole.text);
assert.ok(whole.usage.inputTokens > 0);

let text = "";
const streamed = streamText({ ...base, prompt: saying(PIECES) });
for await (const piece of streamed.textStream) text += piece;
isText(text);
assert.ok(["stop", "length"].includes(await streamed.finishReason));
assert.ok((await streamed.usage).outputTokens > 0);

if (scripted) {
  const tools = { weather: tool({ description: "Look.", inputSchema: jsonSchema(SCHEMA) }) };
  const called = await generateText({ ...base, tools, maxOutputTokens: 200, prompt: saying(CALL) });
  assert.deepEqual(called.toolCalls[0].input, { city: "naïve 😀" });
  const parts = [];
  for await (const part of streamText({ ...base, tools, maxOutputTokens: 200, prompt: saying(CALL) }).fullStream) {
    parts.push(part);
  }
  assert.deepEqual(parts.find((part) => part.type === "tool-call").input, { city: "naïve 😀" });
  let failed = 0;
  const broken = streamText({
    ...base, prompt: saying(["one ", "two "], { fail_after: 1 }), onError: () => { failed += 1; },
  });
  try {
    for await (const part of broken.fullStream) {
      if (part.type === "finish") assert.notEqual(part.finishReason, "stop");
    }
  } catch {
    failed += 1;
  }
  assert.ok(failed, "what is cut is an error");
}

await assert.rejects(generateText({ ...base, model: provider("nope"), prompt: "x" }), (error) => error.statusCode === 404);

const leaving = new AbortController();
const left = streamText({ ...base, maxOutputTokens: 2000, prompt: TALE, abortSignal: leaving.signal });
for await (const piece of left.textStream) {
  if (piece) { leaving.abort(); break; }
}
