// One answer being made: asks for it, reads its stream, and can be stopped.

import { Answer } from "./answer.js";
import { Refusal, ask, askJson } from "./api.js";
import { EventReader } from "./sse.js";
import { waitingFor } from "./waits.js";

const LOOK_MS = 1000;

/** `onchange` is called after everything that may show; `answer.ending` is "" until the end. */
export class Run {
  constructor(request, begun, onchange) {
    this.answer = new Answer(begun);
    this.request = request;
    this.onchange = onchange;
    this.abort = new AbortController();
    this.startedMs = performance.now();
  }

  /** Makes the answer; never rejects. */
  async make() {
    const looking = setInterval(() => this.look(), LOOK_MS);
    try {
      await this.read();
    } catch (error) {
      if (error instanceof Refusal) this.answer.fail(error);
      else this.answer.end(this.abort.signal.aborted ? "stopped" : "lost");
    } finally {
      clearInterval(looking);
      // Whatever this page is done with, the gateway is done with too.
      this.abort.abort();
    }
    this.onchange();
    return this.answer;
  }

  /** Ends it: the connection closes, and with it the gateway frees the slot. */
  stop() {
    this.abort.abort();
  }

  async read() {
    const { signal } = this.abort;
    const options = { method: "POST", body: this.request, signal };
    const reply = await ask("v1/chat/completions", options);
    this.answer.facts = { node: reply.headers.get("x-roost-node") ?? undefined };
    const bytes = reply.body.getReader();
    const text = new TextDecoder();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await bytes.read();
      const piece = done ? text.decode() : text.decode(value, { stream: true });
      for (const event of events.push(piece)) this.answer.on(event, performance.now());
      if (done) break;
      this.onchange();
    }
    this.answer.end("end");
  }

  /** Finds out what it waits for, as long as it has not begun; what fails is asked again later. */
  async look() {
    const { answer } = this;
    if (answer.begun || answer.ending !== "") return;
    const { signal } = this.abort;
    try {
      const { data } = await askJson("roost/v1/observability", { signal });
      if (answer.begun || answer.ending !== "") return;
      const waitedS = (performance.now() - this.startedMs) / 1000;
      const found = waitingFor(data.requests, this.request.model, waitedS);
      answer.state = found || answer.state;
      this.onchange();
    } catch {
      // A gateway in front of other servers has no such feed, and the page can do without.
    }
  }
}
