// System 1's chat page: one prompt, one growing answer, one line that says how it stands.

import { Refusal, ask, askJson } from "./api.js";
import { askForKeys } from "./dialogs.js";
import { get } from "./dom.js";
import { newId } from "./ids.js";
import { EventReader } from "./sse.js";
import { TurnReader, clamped, estimated } from "./turn.js";
import { several } from "./words.js";

const TICK_MS = 100;
const CONFLICT = 409;
let conversation = "";
let abort = null;

function begin() {
  conversation = newId();
  get("conversation").textContent = conversation;
  get("answer").textContent = "";
  say("idle", "idle");
}

function say(state, text) {
  const place = get("status");
  place.dataset.state = state;
  place.textContent = text;
}

async function submit() {
  const prompt = get("prompt").value;
  if (abort !== null || prompt.trim() === "") return;
  const mostTokens = clamped(get("max-tokens").value);
  get("max-tokens").value = mostTokens;
  get("answer").textContent = "";
  const turn = new TurnReader();
  const startedMs = performance.now();
  const elapsed = () => `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
  const ticking = setInterval(() => say("streaming", `streaming, ${elapsed()}`), TICK_MS);
  say("streaming", "streaming");
  running(true);
  const body = {
    conversation_id: conversation,
    prompt,
    model: get("model").value.trim(),
    max_tokens: mostTokens,
  };
  const status = await read(body, turn);
  clearInterval(ticking);
  running(false);
  if (turn.error === "") {
    const counts = `about ${estimated(prompt)} + ${several(turn.tokens, "token")}`;
    const cut = turn.reason === "length" ? ", at the limit of tokens" : "";
    say("done", `done${cut}, ${elapsed()}, ${counts}`);
  } else {
    say("error", `error, ${elapsed()}: ${turn.error}`);
  }
  if (status === CONFLICT) {
    say("error", `error, ${elapsed()}: ${turn.error} Begin a new conversation.`);
    get("new").focus();
  }
  if (status === 401 && (await askForKeys(turn.error))) await offered();
}

function running(runs) {
  if (!runs) abort = null;
  get("submit").disabled = runs;
  get("stop").disabled = !runs;
}

/** Reads the answer into `turn`; gives the status of a refusal, else 200. */
async function read(body, turn) {
  abort = new AbortController();
  const { signal } = abort;
  try {
    const reply = await ask("coordinator/infer", { method: "POST", body, signal });
    const bytes = reply.body.getReader();
    const text = new TextDecoder();
    const events = new EventReader();
    while (!turn.ended) {
      const { done, value } = await bytes.read();
      const piece = done ? text.decode() : text.decode(value, { stream: true });
      for (const event of events.push(piece)) if (event.kind === "data") turn.on(event.data);
      get("answer").textContent = turn.text;
      if (done) turn.close();
    }
  } catch (error) {
    if (error instanceof Refusal) turn.fail(error.message);
    else if (signal.aborted) turn.fail("You stopped it.");
    else turn.close();
    return error instanceof Refusal ? error.status : 200;
  } finally {
    abort?.abort();
  }
  return 200;
}

/** Puts a model that is here in the place of one that is not. */
async function offered() {
  try {
    const { data } = await askJson("v1/models");
    // Others make vectors, or score documents.
    const names = data.filter((one) => !one.mode).map((one) => one.id);
    if (names.length > 0 && !names.includes(get("model").value)) get("model").value = names[0];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    // Whatever else is wrong, whoever asks will hear it with the reason.
    if (error.status === 401 && (await askForKeys(error.message))) await offered();
  }
}

get("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
get("stop").addEventListener("click", () => abort?.abort());
get("new").addEventListener("click", () => {
  abort?.abort();
  begin();
});
begin();
await offered();
