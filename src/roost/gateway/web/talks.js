// Conversations as this browser keeps them. Pure: storage, clock and ids are handed in.
//
// One entry per conversation, so that a word more does not write all of them again. An answer that
// is on its way is kept as "open": found at the next start, it was interrupted.

const PREFIX = "roost.talk.";
const TITLE_MAX = 60;
export const VERSION = 1;

/** A new conversation, not kept yet. */
export function newTalk(id, nowMs, model) {
  return {
    version: VERSION,
    id,
    title: "",
    model,
    created: nowMs,
    updated: nowMs,
    options: {},
    messages: [],
  };
}

/** What a conversation is called until somebody names it: the beginning of its first message. */
export function titleFor(text) {
  const line = text.trim().replace(/\s+/g, " ");
  const letters = Array.from(line);
  return letters.length <= TITLE_MAX ? line : `${letters.slice(0, TITLE_MAX - 1).join("")}…`;
}

/** The messages that a model is given. What failed without a word is left out; what stands beside
 * each other from one person then becomes one message, as templates insist on turns. */
export function promptOf(talk) {
  const said = talk.messages
    .map(({ role, text }) => ({ role, content: text }))
    .filter(({ role, content }) => role === "user" || content !== "");
  const system = (talk.options.system ?? "").trim();
  const prompt = system === "" ? [] : [{ role: "system", content: system }];
  for (const one of said) {
    const last = prompt.at(-1);
    if (last?.role === one.role) last.content += `\n\n${one.content}`;
    else prompt.push(one);
  }
  return prompt;
}

/** The body of a request for the next answer. */
export function requestFor(talk) {
  const body = {
    model: talk.model,
    messages: promptOf(talk),
    stream: true,
    stream_options: { include_usage: true },
  };
  const { temperature, maxTokens } = talk.options;
  if (Number.isFinite(temperature)) body.temperature = temperature;
  if (Number.isFinite(maxTokens)) body.max_tokens = maxTokens;
  return body;
}

/** A conversation as Markdown, for people. */
export function markdownOf(talk) {
  const parts = [`# ${talk.title || "Conversation"}`];
  if (talk.options.system) parts.push("## System", talk.options.system);
  for (const one of talk.messages) {
    const answered = one.role === "assistant";
    parts.push(answered ? `## ${one.model || "Assistant"}` : "## You");
    if (one.thought) parts.push(one.thought.replace(/^/gm, "> "));
    parts.push(one.text);
    if (answered && !["complete", "length"].includes(one.ending)) {
      parts.push(`*(not complete: ${one.error?.message || one.ending})*`);
    }
  }
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

/** A file name out of a title. */
export function fileName(title, ending) {
  const plain = title.normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${plain.slice(0, 50).toLowerCase() || "conversation"}.${ending}`;
}

/** All conversations in a storage such as `localStorage`. */
export class Shelf {
  constructor(storage) {
    this.storage = storage;
  }

  /** Everything that is kept, newest first; what cannot be read is left alone and not shown. */
  all() {
    const found = [];
    for (let i = 0; i < this.storage.length; i += 1) {
      const key = this.storage.key(i);
      const talk = key?.startsWith(PREFIX) ? read(this.storage.getItem(key)) : null;
      if (talk) found.push(talk);
    }
    return found.sort((a, b) => b.updated - a.updated || (a.id < b.id ? -1 : 1));
  }

  /** One of them, or null. */
  get(id) {
    return read(this.storage.getItem(PREFIX + id));
  }

  /** Keeps it; false where the browser has no room, or keeps nothing. */
  save(talk) {
    try {
      this.storage.setItem(PREFIX + talk.id, JSON.stringify(talk));
      return true;
    } catch {
      return false;
    }
  }

  /** Forgets it. */
  remove(id) {
    this.storage.removeItem(PREFIX + id);
  }
}

/** The id in a storage's key; null where the key is not of a conversation. */
export function idOf(key) {
  return key?.startsWith(PREFIX) ? key.slice(PREFIX.length) : null;
}

function read(text) {
  if (!text) return null;
  try {
    const talk = JSON.parse(text);
    const whole = talk.version === VERSION && typeof talk.id === "string";
    if (!whole || !Array.isArray(talk.messages)) return null;
    return { ...newTalk(talk.id, 0, ""), ...talk };
  } catch {
    return null;
  }
}
