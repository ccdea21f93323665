// Server-sent events out of pieces of text, wherever the pieces are cut. Pure.

const LINE_MAX = 4 * 1024 * 1024;

/** Reads a stream: `push` gives the events that are complete. */
export class EventReader {
  constructor() {
    this.rest = "";
    this.data = [];
    this.skipFeed = false;
  }

  /** Takes a piece; gives `{kind: "data", data}` and `{kind: "comment", text}` in their order. */
  push(piece) {
    const events = [];
    let text = this.rest + piece;
    if (this.skipFeed && text.length > 0) {
      // The other half of a CR LF that was cut in two.
      if (text[0] === "\n") text = text.slice(1);
      this.skipFeed = false;
    }
    let from = 0;
    for (;;) {
      const end = lineEnd(text, from);
      if (end === -1) break;
      this.line(text.slice(from, end), events);
      from = end + 1;
      if (text[end] === "\r") {
        if (from === text.length) this.skipFeed = true;
        else if (text[from] === "\n") from += 1;
      }
    }
    this.rest = text.slice(from);
    if (this.rest.length > LINE_MAX) throw new Error("a line of the stream is too long");
    return events;
  }

  line(line, events) {
    if (line === "") {
      if (this.data.length > 0) events.push({ kind: "data", data: this.data.join("\n") });
      this.data = [];
    } else if (line.startsWith(":")) {
      events.push({ kind: "comment", text: line.slice(1).trim() });
    } else {
      const colon = line.indexOf(":");
      const field = colon === -1 ? line : line.slice(0, colon);
      const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") this.data.push(value);
    }
  }
}

function lineEnd(text, from) {
  const feed = text.indexOf("\n", from);
  const back = text.indexOf("\r", from);
  if (feed === -1 || back === -1) return Math.max(feed, back);
  return Math.min(feed, back);
}
