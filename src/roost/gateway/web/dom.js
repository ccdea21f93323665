// Elements, made one by one: no text here ever becomes markup.

/** Makes an element. `on…` are listeners, `class` and all others attributes; false leaves one out. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** The element of this id; a page without it is broken. */
export function get(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page lacks #${id}`);
  return found;
}

const SVG = "http://www.w3.org/2000/svg";

/** One of the drawings below, for a button whose label says what it does. */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  drawing.setAttribute("class", "icon");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  drawing.append(path);
  return drawing;
}

const PATHS = {
  copy: "M9 9h10v10H9zM5 15V5h10",
  again: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5",
  onward: "M5 12h14M13 6l6 6-6 6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  more: "M12 6h.01M12 12h.01M12 18h.01",
};

/** A button with a drawing and a label for whoever does not see it. */
export function tool(name, label, onclick, properties = {}) {
  return el(
    "button",
    { type: "button", class: "tool", title: label, "aria-label": label, onclick, ...properties },
    icon(name),
  );
}

/** Puts a text on the clipboard; false where the browser does not allow it. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByHand(text);
  }
}

/** Over plain HTTP from another machine browsers have no clipboard but this one. */
function copiedByHand(text) {
  const area = el("textarea", { class: "out-of-sight", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Gives a file to keep. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
