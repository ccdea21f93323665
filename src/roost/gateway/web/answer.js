// One answer while it comes, from the events of /v1/chat/completions. Pure: no clock, no network.
//
//   new ──event…──▶ on its way ──end──▶ complete | length | stopped | failed | cut
//
// An answer is complete only where its last event says so: a stream that just ends was cut.

const LEAST_MS = 100;
const STATES = [
  [/^queued (\d+)\/(\d+)(?:, about (\d+) s)?/, queued],
  [/^loading (\d+) %/, (found) => `The model is being loaded: ${found[1]} %`],
  [/^prefill (\d+) %/, (found) => `Reading the conversation: ${found[1]} %`],
  [/^replayed after (\S+) at token (\d+)/, replayed],
];

function queued([, place, length, eta]) {
  const about = eta === undefined ? "" : `, about ${eta} s`;
  return `Waiting in line: place ${place} of ${length}${about}`;
}

function replayed([, lost, token]) {
  return `${lost} was lost; another machine goes on at token ${token}`;
}

/** What the gateway says of a request, in comments of its stream and in its feed, as a sentence; "" where it says nothing. */
export function stateOf(comment) {
  for (const [pattern, sentence] of STATES) {
    const found = comment.match(pattern);
    if (found) return sentence(found);
  }
  return "";
}

export class Answer {
  /** `text` and `thought` are what an answer that is gone on with has already. */
  constructor({ text = "", thought = "" } = {}) {
    this.text = text;
    this.thought = thought;
    this.state = "";
    this.ending = "";
    this.error = null;
    this.usage = null;
    this.facts = {};
    this.firstMs = null;
    this.lastMs = null;
    this.finish = "";
    this.closed = false;
  }

  /** Whether any word of it is here. */
  get begun() {
    return this.firstMs !== null;
  }

  /** Takes one event of the stream, at `nowMs`. */
  on(event, nowMs) {
    if (this.ending !== "") return;
    if (event.kind === "comment") {
      this.state = stateOf(event.text) || this.state;
      return;
    }
    if (event.data === "[DONE]") {
      this.closed = true;
      return;
    }
    let chunk;
    try {
      chunk = JSON.parse(event.data);
    } catch {
      this.fail({ code: "bad_stream", message: "The stream has something that is no event." });
      return;
    }
    this.chunk(chunk, nowMs);
  }

  chunk(chunk, nowMs) {
    if (chunk.error) {
      this.fail(chunk.error);
      return;
    }
    const choice = chunk.choices?.[0];
    if (choice) {
      const { content, reasoning_content: thought } = choice.delta ?? {};
      if (content || thought) {
        this.firstMs ??= nowMs;
        this.lastMs = nowMs;
        this.state = "";
      }
      this.text += content || "";
      this.thought += thought || "";
      this.finish = choice.finish_reason ?? this.finish;
    }
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.roost) this.facts = { ...this.facts, ...chunk.roost };
  }

  /** The gateway, or the way to it, has refused or broken off. */
  fail(error) {
    if (this.ending !== "") return;
    this.ending = "failed";
    this.error = { code: error.code ?? "", message: error.message ?? "", wait: error.wait ?? null };
  }

  /** Nothing more comes: `how` is "end" of the stream, "stopped" by a person, or "lost". */
  end(how) {
    if (this.ending !== "") return;
    if (this.closed && this.finish !== "") {
      this.ending = this.finish === "length" ? "length" : "complete";
    } else if (how === "stopped") {
      this.ending = "stopped";
    } else {
      this.ending = "cut";
      this.error = {
        code: "cut",
        message: "The connection broke off before the answer was complete.",
        wait: null,
      };
    }
  }

  /** Tokens a second, from the first word to the last; null where that was too short to tell. */
  get rate() {
    const tokens = (this.usage?.completion_tokens ?? 0) - 1;
    const passedMs = (this.lastMs ?? 0) - (this.firstMs ?? 0);
    return tokens > 0 && passedMs >= LEAST_MS ? (1000 * tokens) / passedMs : null;
  }

  /** What is kept of it. */
  kept() {
    const { text, thought, ending, error, usage, facts, rate } = this;
    return { text, thought, ending: ending || "open", error, usage, facts, rate };
  }
}

const TITLES = {
  node_lost: "The machine that was answering is gone",
  runtime_died: "The model's process died",
  runtime_error: "The model's runtime failed",
  load_failed: "The model could not be loaded",
  queue_full: "Too many are waiting",
  queue_timeout: "It took too long until a place was free",
  overloaded: "The fleet is overloaded",
  node_busy: "The machine is busy",
  no_nodes: "No machine with this model is here now",
  draining: "The server is about to stop",
  starting: "The server is still starting",
  deadline: "The time was up",
  cancelled: "Somebody cancelled this request",
  unauthorized: "A key is needed",
  forbidden: "This key may not do that",
  model_not_found: "There is no such model",
  context_length_exceeded: "This conversation is longer than the model's context",
  unreachable: "The gateway does not answer",
  cut: "The answer broke off",
};

/** The headline of a failure. */
export function titleOf(error) {
  return TITLES[error.code] ?? "The answer failed";
}
