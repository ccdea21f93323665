// The conversation that is shown, and the answers that are being made, here and in others.

import { el, get } from "./dom.js";
import { notice } from "./dialogs.js";
import { newId } from "./ids.js";
import { ModelMessage, editor, personMessage } from "./message_view.js";
import { Run } from "./run.js";
import { newTalk, requestFor, titleFor } from "./talks.js";

const SAVE_MS = 1000;
const NEAR_END_PX = 80;
const ENDINGS = {
  complete: "The answer is complete.",
  length: "The answer has reached its limit.",
  stopped: "The answer was stopped.",
};

export class Chat {
  /** `onkept` is called when a conversation was kept, `onkey` when the gateway asks for a key. */
  constructor(shelf, { onkept, onkey }) {
    this.shelf = shelf;
    this.onkept = onkept;
    this.onkey = onkey;
    this.runs = new Map();
    this.views = [];
    this.talk = null;
    this.messages = get("messages");
    this.scroller = get("scroller");
    this.follow = true;
    this.scroller.addEventListener("scroll", () => this.scrolled());
    get("to-end").addEventListener("click", () => this.toEnd());
  }

  /** Begins a conversation, which is kept with its first message. */
  begin(model) {
    this.open(newTalk(newId(), Date.now(), model));
  }

  /** Shows a conversation. */
  open(talk) {
    // One with an answer on its way is newer here than in the storage.
    this.talk = this.runs.get(talk.id)?.talk ?? talk;
    this.follow = true;
    this.render();
  }

  /** Whether an answer of this conversation is on its way. */
  busy(id = this.talk.id) {
    return this.runs.has(id);
  }

  send(text) {
    const { talk } = this;
    if (this.busy() || text.trim() === "") return false;
    if (talk.title === "") talk.title = titleFor(text);
    talk.messages.push({ role: "user", text, at: Date.now() });
    this.answer();
    return true;
  }

  /** Makes the last answer anew. */
  again() {
    if (this.busy()) return;
    if (this.talk.messages.at(-1)?.role === "assistant") this.talk.messages.pop();
    this.answer();
  }

  /** Lets the model go on with its last answer where it ended. */
  onward() {
    if (!this.busy()) this.answer(this.talk.messages.pop());
  }

  /** Says something else at this place; what came after it is dropped. */
  change(at, text) {
    if (this.busy()) return;
    this.talk.messages.splice(at);
    this.send(text);
  }

  stop() {
    this.runs.get(this.talk.id)?.run.stop();
  }

  /** Ends what is made for a conversation that is deleted. */
  drop(id) {
    const running = this.runs.get(id);
    if (running) {
      running.dropped = true;
      running.run.stop();
    }
  }

  /** The page goes: what has come so far is kept, as answers that were still on their way. */
  leave() {
    for (const running of this.runs.values()) {
      running.dropped = true;
      running.message.ending = "open";
      this.shelf.save(running.talk);
      running.run.stop();
    }
  }

  answer(begun) {
    const { talk } = this;
    const message = {
      role: "assistant",
      model: talk.model,
      text: begun?.text ?? "",
      thought: begun?.thought ?? "",
      ending: "open",
      at: Date.now(),
    };
    const request = requestFor({ ...talk, messages: begun ? [...talk.messages, begun] : talk.messages });
    talk.messages.push(message);
    const running = { talk, message, dropped: false, savedMs: performance.now() };
    running.run = new Run(request, message, () => this.changed(running));
    this.runs.set(talk.id, running);
    this.keep(talk);
    this.follow = true;
    this.render();
    running.run.make().then((answer) => this.ended(running, answer));
  }

  changed(running) {
    Object.assign(running.message, running.run.answer.kept());
    if (performance.now() - running.savedMs > SAVE_MS) {
      running.savedMs = performance.now();
      if (!running.dropped) this.keep(running.talk);
    }
    this.draw(running);
  }

  ended(running, answer) {
    const { talk, message, dropped } = running;
    this.runs.delete(talk.id);
    if (dropped) return;
    Object.assign(message, answer.kept());
    talk.updated = Date.now();
    this.keep(talk);
    if (talk === this.talk) {
      this.render();
      get("live").textContent = ENDINGS[message.ending] ?? "The answer failed.";
    }
    if (message.error?.code === "unauthorized") this.onkey();
  }

  keep(talk) {
    if (!this.shelf.save(talk)) {
      notice("This browser has no room for the conversation. Export it, or delete others.");
    }
    this.onkept(talk);
  }

  /** Shows the newest text with the next frame, once, however many pieces come before that. */
  draw(running) {
    if (running.talk !== this.talk || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.busy()) this.showLast();
    });
  }

  showLast() {
    const { run, message } = this.runs.get(this.talk.id);
    this.views.at(-1)?.show({ ...message, ending: "" }, { last: true, state: run.answer.state });
    if (this.follow) this.toEnd();
  }

  render() {
    const { talk } = this;
    this.views = [];
    this.messages.replaceChildren(...talk.messages.map((message, at) => this.shown(message, at)));
    get("welcome").hidden = talk.messages.length > 0;
    const busy = this.busy();
    get("send").hidden = busy;
    get("stop").hidden = !busy;
    this.messages.setAttribute("aria-busy", String(busy));
    if (busy) this.showLast();
    else if (this.follow) this.toEnd();
  }

  shown(message, at) {
    if (message.role === "user") {
      return personMessage(message, { edit: () => this.edit(at) });
    }
    const acts = { again: () => this.again(), onward: () => this.onward() };
    const view = new ModelMessage(message.model, acts);
    const last = at === this.talk.messages.length - 1;
    if (last) this.views.push(view);
    view.show(message, { last: last && !this.busy() });
    return view.element;
  }

  edit(at) {
    if (this.busy()) return;
    const { talk } = this;
    const place = this.messages.children[at];
    const dropped = talk.messages.slice(at + 1).filter((one) => one.role === "user").length;
    const form = editor(talk.messages[at].text, dropped, (text) => {
      if (talk !== this.talk) return;
      if (text === null) this.render();
      else this.change(at, text);
    });
    place.replaceWith(el("div", { class: "message person editing" }, form));
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.follow = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    get("to-end").hidden = this.follow;
  }

  toEnd() {
    this.follow = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    get("to-end").hidden = true;
  }
}
