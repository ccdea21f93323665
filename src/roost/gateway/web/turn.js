// A turn of `/coordinator/infer` while it comes, from the events of its stream. Pure.

/** How many tokens a prompt may have, by the rule of thumb that this API has. */
export function estimated(text) {
  return Math.ceil(text.length / 4);
}

/** A number that was typed in, within what this API takes. */
export function clamped(text) {
  const number = Math.round(Number(text));
  return Number.isFinite(number) ? Math.min(1000, Math.max(1, number)) : 50;
}

export class TurnReader {
  constructor() {
    this.text = "";
    this.tokens = 0;
    this.error = "";
    this.reason = "";
    this.ended = false;
  }

  /** Takes the data of one event; whatever follows the end is nothing. */
  on(data) {
    if (this.ended) return;
    let told;
    try {
      told = JSON.parse(data);
    } catch {
      this.fail("The stream has something that is no event.");
      return;
    }
    if (typeof told.error === "string") this.fail(told.error);
    else if (told.finished) this.finish(told.reason);
    else if (typeof told.token === "string") {
      this.text += told.token;
      this.tokens += 1;
    }
  }

  finish(reason) {
    this.ended = true;
    this.reason = reason;
    if (reason === "error") this.error = "The answer failed.";
  }

  fail(message) {
    this.ended = true;
    this.error = message;
  }

  /** The stream is over: an answer without its last event was cut. */
  close() {
    if (!this.ended) this.fail("The connection broke off before the answer was complete.");
    this.ended = true;
  }
}
