// Markdown as models write it, to a tree. Pure; what becomes of the tree is `markdown_view.js`.
//
// There is no HTML in it: a tag is text. Every search for an end that fails is remembered, so that
// hostile text costs no more than long text. Text that is still being written is read as far as it
// is: a fence without its end is code to the end.

const DEPTH_MAX = 8;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=\s|$)/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])(?:\s+(.*)|\s*)$/;
const TABLE_RULE = /^:?-+:?$/;

/** A text as a list of blocks, each with the `source` that it was made of. */
export function parse(text) {
  const lines = text.replace(/\r\n?/g, "\n").replaceAll("\0", "\uFFFD").split("\n");
  return blocks(lines, 0);
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at, depth);
    block.source = lines.slice(at, next).join("\n");
    made.push(block);
    at = next;
  }
  return made;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = line.match(FENCE);
  if (fence) return codeAt(lines, at, fence);
  const heading = line.match(HEADING);
  if (heading) {
    const title = line.slice(heading[0].length).trim().replace(/(?:^|\s)#+$/, "");
    return [{ kind: "heading", level: heading[1].length, spans: spans(title) }, at + 1];
  }
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (depth < DEPTH_MAX) {
    if (QUOTE.test(line)) return quoteAt(lines, at, depth);
    if (ITEM.test(line)) return listAt(lines, at, depth);
  }
  if (isTable(lines, at)) return tableAt(lines, at);
  return paragraphAt(lines, at);
}

function codeAt(lines, at, [, indent, marks, info]) {
  const end = new RegExp(`^ {0,3}${marks[0] === "`" ? "`" : "~"}{${marks.length},}\\s*$`);
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next])) next += 1;
  const inside = lines.slice(at + 1, next).map((one) => unindented(one, indent.length));
  const language = info.trim().split(/\s+/)[0];
  const open = next >= lines.length;
  if (open && inside.at(-1) === "") inside.pop();
  return [{ kind: "code", language, text: inside.join("\n"), open }, Math.min(next + 1, lines.length)];
}

function unindented(line, columns) {
  let cut = 0;
  while (cut < columns && line[cut] === " ") cut += 1;
  return line.slice(cut);
}

function quoteAt(lines, at, depth) {
  let next = at;
  const inside = [];
  while (next < lines.length) {
    const quoted = lines[next].match(QUOTE);
    if (!quoted && (lines[next].trim() === "" || beginsBlock(lines, next))) break;
    inside.push(quoted ? quoted[1] : lines[next]);
    next += 1;
  }
  return [{ kind: "quote", blocks: blocks(inside, depth + 1) }, next];
}

/** A list goes on as long as lines are items of its kind, indented, or empty before either. */
function listAt(lines, at, depth) {
  const first = lines[at].match(ITEM);
  const ordered = first[3] !== undefined;
  const base = first[1].length;
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = lines[next].match(ITEM);
    const mine = found && (found[3] !== undefined) === ordered && found[1].length < base + 2;
    if (!mine || RULE.test(lines[next])) break;
    const [item, after] = itemAt(lines, next, found);
    items.push(blocks(item, depth + 1));
    next = after;
  }
  if (next === at) return paragraphAt(lines, at);
  const start = ordered ? Number(first[3]) : null;
  return [{ kind: "list", ordered, start, items }, next];
}

function itemAt(lines, at, found) {
  const own = found[1].length;
  const inside = [found[4] ?? ""];
  const width = lines[at].length - (found[4] ?? "").length;
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (line.trim() === "") {
      const follows = firstText(lines, next);
      if (follows === -1 || indentOf(lines[follows]) < own + 2) break;
      inside.push("");
      next = follows - 1;
      continue;
    }
    const indent = indentOf(line);
    if (indent < own + 2 && (ITEM.test(line) || beginsBlock(lines, next))) break;
    inside.push(unindented(line, Math.min(width, Math.max(indent, 0))));
  }
  // Empty lines between two items of one list belong to neither.
  const follows = firstText(lines, next);
  const sibling = follows !== -1 && ITEM.test(lines[follows]);
  return [inside, sibling ? follows : next];
}

function firstText(lines, from) {
  let at = from;
  while (at < lines.length && lines[at].trim() === "") at += 1;
  return at < lines.length ? at : -1;
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

function beginsBlock(lines, at) {
  const line = lines[at];
  const other = FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
  return other || isTable(lines, at);
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  if (rule === undefined || !lines[at].includes("|") || !rule.includes("-")) return false;
  const marks = cells(rule);
  return marks.every((one) => TABLE_RULE.test(one)) && cells(lines[at]).length === marks.length;
}

function tableAt(lines, at) {
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map(alignment);
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|") && lines[next].trim() !== "") {
    const row = cells(lines[next]).slice(0, head.length);
    while (row.length < head.length) row.push("");
    rows.push(row.map((cell) => spans(cell)));
    next += 1;
  }
  return [{ kind: "table", head: head.map((cell) => spans(cell)), align, rows }, next];
}

function alignment(rule) {
  const left = rule.startsWith(":");
  const right = rule.endsWith(":");
  if (left && right) return "center";
  return right ? "right" : "left";
}

function cells(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function paragraphAt(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !endsParagraph(lines, next)) next += 1;
  return [{ kind: "paragraph", spans: spans(lines.slice(at, next).join("\n")) }, next];
}

function endsParagraph(lines, at) {
  const item = lines[at].match(ITEM);
  // A year at the beginning of a line is no list; only 1 begins one within a paragraph.
  const begins = item && (item[3] === undefined || item[3] === "1") && (item[4] ?? "") !== "";
  return Boolean(begins) || beginsBlock(lines, at);
}

// Within a block.

const ESCAPABLE = /[\\`*_{}[\]()#+\-.!|~<>"'$&,/:;=?@^%]/;
const ADDRESS = /^https?:\/\/[^\s<>"'`]+/;
const PAIRS = [
  ["***", ["strong", "emphasis"]],
  ["___", ["strong", "emphasis"]],
  ["**", ["strong"]],
  ["__", ["strong"]],
  ["~~", ["deleted"]],
  ["*", ["emphasis"]],
  ["_", ["emphasis"]],
];

/** A text as spans: strings, `{kind: "code", text}`, `{kind: "break"}`, `{kind, spans}`, links. */
export function spans(text, depth = 0) {
  return new Spans(text, depth).read();
}

class Spans {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.plain = "";
    this.made = [];
    this.hopeless = new Set();
  }

  read() {
    while (this.at < this.text.length) {
      if (!this.special()) {
        this.plain += this.text[this.at];
        this.at += 1;
      }
    }
    this.flush();
    return this.made;
  }

  special() {
    const char = this.text[this.at];
    if (char === "\\") return this.escape();
    if (char === "\n") return this.put({ kind: "break" }, this.at + 1);
    if (char === "`") return this.code();
    if (this.depth >= DEPTH_MAX) return false;
    if (char === "[" || (char === "!" && this.text[this.at + 1] === "[")) return this.link();
    if (char === "*" || char === "_" || char === "~") return this.pair();
    if (char === "h" || char === "<") return this.address();
    return false;
  }

  put(span, next) {
    this.flush();
    this.made.push(span);
    this.at = next;
    return true;
  }

  flush() {
    if (this.plain !== "") this.made.push(this.plain);
    this.plain = "";
  }

  /** Where `mark` comes next, or -1; what was once not found is not looked for again. */
  find(mark, from) {
    if (this.hopeless.has(mark)) return -1;
    const found = this.text.indexOf(mark, from);
    if (found === -1) this.hopeless.add(mark);
    return found;
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !ESCAPABLE.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    let end = this.at;
    while (this.text[end] === "`") end += 1;
    const marks = this.text.slice(this.at, end);
    let close = this.find(marks, end);
    // A longer run of marks is not the end of a shorter one.
    while (close !== -1 && this.text[close + marks.length] === "`") {
      let beyond = close;
      while (this.text[beyond] === "`") beyond += 1;
      close = this.find(marks, beyond);
    }
    if (close === -1) {
      this.plain += marks;
      this.at = end;
      return true;
    }
    const inside = this.text.slice(end, close).replaceAll("\n", " ");
    const padded = /^ .* $/.test(inside) && inside.trim() !== "";
    const text = padded ? inside.slice(1, -1) : inside;
    return this.put({ kind: "code", text }, close + marks.length);
  }

  pair() {
    for (const [mark, kinds] of PAIRS) {
      if (!this.text.startsWith(mark, this.at)) continue;
      const inside = this.between(mark);
      if (inside === null) continue;
      const within = spans(inside, this.depth + 1);
      const made = kinds.reduceRight((held, kind) => [{ kind, spans: held }], within);
      return this.put(made[0], this.at + inside.length + 2 * mark.length);
    }
    return false;
  }

  /** What stands between this mark and the next one that can close it; null without one. */
  between(mark) {
    const from = this.at + mark.length;
    const first = this.text[from];
    if (first === undefined || /\s/.test(first) || first === mark[0]) return null;
    if (mark[0] === "_" && /[\p{L}\p{N}]/u.test(this.text[this.at - 1] ?? "")) return null;
    let close = this.find(mark, from);
    while (close !== -1 && !this.closes(mark, close)) {
      let beyond = close;
      while (this.text[beyond] === mark[0]) beyond += 1;
      close = this.find(mark, beyond);
    }
    return close === -1 ? null : this.text.slice(from, close);
  }

  closes(mark, at) {
    if (/\s/.test(this.text[at - 1]) || this.text[at - 1] === mark[0]) return false;
    let end = at;
    while (this.text[end] === mark[0]) end += 1;
    const run = end - at;
    if (mark.length === 1 && run === 2) return false;
    return mark[0] !== "_" || !/[\p{L}\p{N}]/u.test(this.text[at + mark.length] ?? "");
  }

  link() {
    const open = this.text[this.at] === "!" ? this.at + 1 : this.at;
    const middle = this.find("](", open);
    if (middle === -1) return false;
    const inside = this.text.slice(open + 1, middle);
    if (inside.includes("[") || inside.includes("\n\n")) return false;
    const close = closing(this.text, middle + 2);
    if (close === -1) return false;
    const target = this.text.slice(middle + 2, close).trim().split(/\s+["'(]/)[0];
    const address = safeAddress(target.replace(/^<|>$/g, ""));
    const label = inside === "" ? target : inside;
    const within = open > this.at ? [label] : spans(label, this.depth + 1);
    if (address === null) return this.put({ kind: "plain", spans: within }, close + 1);
    return this.put({ kind: "link", address, spans: within }, close + 1);
  }

  address() {
    const angled = this.text[this.at] === "<";
    const from = angled ? this.at + 1 : this.at;
    if (!this.text.startsWith("http", from)) return false;
    if (!angled && /[\p{L}\p{N}]/u.test(this.text[this.at - 1] ?? "")) return false;
    const found = this.text.slice(from, from + 2048).match(ADDRESS);
    if (!found) return false;
    const told = angled ? found[0] : trimmed(found[0]);
    const address = safeAddress(told);
    if (address === null || (angled && this.text[from + told.length] !== ">")) return false;
    const next = from + told.length + (angled ? 1 : 0);
    return this.put({ kind: "link", address, spans: [told] }, next);
  }
}

/** Where the parenthesis that is open at `from` closes, within one line and a sane length. */
function closing(text, from) {
  let depth = 0;
  for (let at = from; at < Math.min(text.length, from + 2048); at += 1) {
    if (text[at] === "\n") return -1;
    if (text[at] === "(") depth += 1;
    if (text[at] === ")") {
      if (depth === 0) return at;
      depth -= 1;
    }
  }
  return -1;
}

/** An address in running text ends before the punctuation of the sentence that it stands in. */
function trimmed(address) {
  let end = address.length;
  while (end > 0 && ".,;:!?*_~".includes(address[end - 1])) end -= 1;
  if (address[end - 1] === ")" && !address.slice(0, end).includes("(")) end -= 1;
  return address.slice(0, end);
}

/** The address where it leads out to the web or to mail, else null: nothing that runs a script. */
export function safeAddress(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}
