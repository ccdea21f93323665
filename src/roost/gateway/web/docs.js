// The page of all addresses: the OpenAPI document of this very gateway, as a list.

import { el, get } from "./dom.js";
import { bodiesOf, groupsOf } from "./docs_model.js";

const status = get("status");
const place = get("addresses");

function bodyOf(body) {
  return [el("p", { class: "about" }, body.title), el("pre", {}, body.text)];
}

function addressOf(document_, one) {
  const head = el(
    "summary",
    {},
    el("code", { class: "method" }, one.method),
    el("code", {}, one.path),
    el("span", { class: "about" }, one.summary),
  );
  const made = el("details", { class: "address" }, head);
  made.addEventListener(
    "toggle",
    () => made.append(...bodiesOf(document_, one).flatMap(bodyOf)),
    { once: true },
  );
  return made;
}

function show(document_, wanted) {
  const groups = groupsOf(document_, wanted).map((group) =>
    el(
      "section",
      {},
      el("h2", {}, group.name),
      el("p", { class: "about" }, group.about),
      ...group.addresses.map((one) => addressOf(document_, one)),
    ),
  );
  place.replaceChildren(...groups);
}

async function begin() {
  try {
    const reply = await fetch("openapi.json");
    const document_ = await reply.json();
    const find = get("find");
    find.addEventListener("input", () => show(document_, find.value));
    show(document_, "");
    status.textContent = `roost ${document_.info.version}`;
  } catch {
    status.textContent = "The document cannot be read.";
  }
}

begin();
