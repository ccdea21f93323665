// The page at `/`: puts its parts together and goes by the address bar.
//
//   #/            a new conversation        #/c/ID   one that is kept        #/fleet   the fleet

import { Refusal } from "./api.js";
import { Chat } from "./chat.js";
import { askForKeys, notice, question } from "./dialogs.js";
import { get } from "./dom.js";
import { FleetView } from "./fleet.js";
import { Models } from "./models.js";
import { Shelf, idOf } from "./talks.js";
import { TalkList } from "./talk_list.js";

const MODELS_MS = 15_000;
const shelf = new Shelf(localStorage);
const chat = new Chat(shelf, { onkept, onkey: () => needKey("This gateway wants a key.") });
const models = new Models((name) => {
  chat.talk.model = name;
  if (chat.talk.messages.length > 0) chat.keep(chat.talk);
});
const list = new TalkList(shelf, {
  open: (id) => go(`#/c/${id}`),
  busy: (id) => chat.busy(id),
  renamed,
  gone,
});
const fleet = new FleetView(get("fleet"), () => needKey("This gateway wants a key."));
let asking = false;

function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function route() {
  closeDrawer();
  const hash = location.hash || "#/";
  const onFleet = hash === "#/fleet";
  get("chat").hidden = onFleet;
  get("fleet").hidden = !onFleet;
  get("model-place").hidden = onFleet;
  mark("tab-fleet", onFleet);
  mark("tab-chat", !onFleet);
  fleet.watch(onFleet);
  if (onFleet) {
    document.title = "Fleet – roost";
    list.show(null);
    return;
  }
  const id = hash.startsWith("#/c/") ? hash.slice(4) : null;
  const kept = id === null ? null : shelf.get(id);
  if (id !== null && !kept) {
    notice("That conversation is not kept in this browser.");
    location.hash = "#/";
    return;
  }
  if (kept) chat.open(kept);
  else chat.begin(models.usual);
  shownTalk();
  if (matchMedia("(hover: hover)").matches) get("text").focus();
}

function mark(id, current) {
  if (current) get(id).setAttribute("aria-current", "page");
  else get(id).removeAttribute("aria-current");
}

function shownTalk() {
  const { talk } = chat;
  document.title = talk.title === "" ? "roost" : `${talk.title} – roost`;
  get("tab-chat").href = talk.messages.length > 0 ? `#/c/${talk.id}` : "#/";
  models.show(talk.model);
  list.show(talk.id);
  const { system, temperature, maxTokens } = talk.options;
  get("options").classList.toggle("set", Boolean(system) || temperature >= 0 || maxTokens > 0);
}

function onkept(talk) {
  list.show(chat.talk?.id);
  if (talk === chat.talk && location.hash !== `#/c/${talk.id}` && !get("chat").hidden) {
    history.replaceState(null, "", `#/c/${talk.id}`);
    shownTalk();
  }
}

function renamed(id, title) {
  const talk = chat.talk?.id === id ? chat.talk : (chat.runs.get(id)?.talk ?? shelf.get(id));
  if (!talk) return;
  talk.title = title;
  chat.keep(talk);
  if (talk === chat.talk && !get("chat").hidden) shownTalk();
}

function gone(id) {
  chat.drop(id);
  if (chat.talk?.id === id) {
    if (get("chat").hidden) chat.begin(models.usual);
    else go("#/");
  }
  list.show();
}

async function loadModels() {
  if (asking || document.hidden) return;
  try {
    await models.load();
    get("trouble").hidden = true;
    if (chat.talk?.model === "") {
      chat.talk.model = models.usual;
      models.show(chat.talk.model);
    }
    greet();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 401) await needKey(error.message);
    else trouble(error.message);
  }
}

function greet() {
  const none = models.names?.length === 0;
  get("greeting").textContent = none ? "No model is here yet" : "What shall we talk about?";
  get("greeting-more").textContent = none
    ? "Pull one with: roost pull hf:ORG/REPO"
    : "Conversations are kept in this browser alone. Nothing leaves your machines.";
}

function trouble(text) {
  get("trouble-text").textContent = text;
  get("trouble").hidden = false;
}

async function needKey(why) {
  trouble(why);
  if (asking) return;
  asking = true;
  const given = await askForKeys(`${why}\nIt is kept until this tab is closed.`);
  asking = false;
  if (given) await keysGiven();
}

async function keysGiven() {
  await loadModels();
  if (!get("fleet").hidden) fleet.look();
}

async function chooseOptions() {
  const { talk } = chat;
  const { system = "", temperature = "", maxTokens = "" } = talk.options;
  const given = await question({
    title: "How to answer in this conversation",
    yes: "Use these",
    fields: [
      { name: "system", label: "Instructions for the model", value: system, rows: 5 },
      {
        name: "temperature",
        label: "Temperature",
        hint: "0 is the likeliest word every time; empty leaves it to the model",
        value: temperature,
        type: "number",
        min: 0,
        max: 2,
        step: "any",
      },
      {
        name: "maxTokens",
        label: "Most tokens of an answer",
        hint: "Empty: as many as there is room for",
        value: maxTokens,
        type: "number",
        min: 1,
        step: 1,
      },
    ],
  });
  if (given === null) return;
  const options = {};
  if (given.system.trim() !== "") options.system = given.system;
  if (given.temperature !== "") options.temperature = Number(given.temperature);
  if (given.maxTokens !== "") options.maxTokens = Number(given.maxTokens);
  talk.options = options;
  if (talk.messages.length > 0) chat.keep(talk);
  shownTalk();
}

function submit() {
  const text = get("text");
  if (chat.talk.model === "") chat.talk.model = models.select.value;
  if (chat.send(text.value)) {
    text.value = "";
    grow();
  }
}

function grow() {
  const text = get("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight, 240)}px`;
}

function closeDrawer() {
  document.body.classList.remove("drawer-open");
  get("drawer").setAttribute("aria-expanded", "false");
}

function toggleDrawer() {
  const open = document.body.classList.toggle("drawer-open");
  get("drawer").setAttribute("aria-expanded", String(open));
  if (open) get("new").focus();
}

function listen() {
  get("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  get("text").addEventListener("input", grow);
  get("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  get("stop").addEventListener("click", () => {
    chat.stop();
    get("text").focus();
  });
  get("new").addEventListener("click", () => go("#/"));
  get("options").addEventListener("click", chooseOptions);
  get("drawer").addEventListener("click", toggleDrawer);
  get("shade").addEventListener("click", closeDrawer);
  for (const id of ["keys", "trouble-keys"]) {
    get(id).addEventListener("click", async () => {
      if (await askForKeys()) await keysGiven();
    });
  }
  document.addEventListener("keydown", keyboard);
  addEventListener("hashchange", route);
  addEventListener("pagehide", () => chat.leave());
  addEventListener("pageshow", (event) => {
    // Brought back as it was when it went: without the answers that were on their way then.
    if (event.persisted) route();
  });
  addEventListener("storage", (event) => elsewhere(idOf(event.key)));
  document.addEventListener("visibilitychange", loadModels);
}

function keyboard(event) {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("drawer-open")) {
      closeDrawer();
      get("drawer").focus();
    } else if (!get("chat").hidden) chat.stop();
  } else if (event.key.toLowerCase() === "o" && event.shiftKey && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    go("#/");
  }
}

/** Another tab has kept or deleted a conversation; what is being answered here is newer. */
function elsewhere(id) {
  list.show();
  if (id === null || chat.talk?.id !== id || chat.busy(id)) return;
  const kept = shelf.get(id);
  if (kept) {
    chat.open(kept);
    if (!get("chat").hidden) shownTalk();
  }
}

listen();
models.show();
route();
loadModels();
setInterval(loadModels, MODELS_MS);
