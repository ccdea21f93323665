// The keys that somebody has typed in. They last as long as this tab, and are sent to this gateway
// alone.

const CHAT = "roost.key";
const OPERATOR = "roost.operator-key";

export function chatKey() {
  return sessionStorage.getItem(CHAT) ?? "";
}

/** The operator's key, or the other one where none was given: a key may be for both. */
export function operatorKey() {
  return sessionStorage.getItem(OPERATOR) || chatKey();
}

export function hasOperatorKey() {
  return Boolean(sessionStorage.getItem(OPERATOR));
}

/** Keeps both; "" forgets one. */
export function keepKeys(chat, operator) {
  keep(CHAT, chat.trim());
  keep(OPERATOR, operator.trim());
}

function keep(name, key) {
  if (key === "") sessionStorage.removeItem(name);
  else sessionStorage.setItem(name, key);
}

/** Whether a text can be sent as a key at all: browsers refuse some characters in a header. */
export function sendable(key) {
  return /^[\x21-\x7e]*$/.test(key.trim());
}
