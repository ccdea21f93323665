// What is asked of the gateway, and what it refuses.

import { chatKey, operatorKey } from "./keys.js";

/** Where this gateway's addresses begin; it may live below a path of another server. */
export const BASE = new URL("../", import.meta.url);

/** A request that was not answered as it should be; `status` 0 where nobody answered. */
export class Refusal extends Error {
  constructor(status, code, message, wait = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }
}

/** Asks and gives the reply of a 2xx; everything else is a `Refusal`, leaving alone an abort. */
export async function ask(path, { method = "GET", body, operator = false, signal } = {}) {
  const key = operator ? operatorKey() : chatKey();
  const headers = key === "" ? {} : { authorization: `Bearer ${key}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let reply;
  try {
    reply = await fetch(new URL(path.replace(/^\//, ""), BASE), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const message = "No answer from the gateway. Is it still running, and is the network there?";
    throw new Refusal(0, "unreachable", message);
  }
  if (!reply.ok) throw await refusalOf(reply);
  return reply;
}

/** Asks for JSON. */
export async function askJson(path, options) {
  const reply = await ask(path, options);
  try {
    return await reply.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Refusal(0, "unreachable", "The answer of the gateway broke off.");
  }
}

async function refusalOf(reply) {
  let told = {};
  try {
    told = (await reply.json()).error ?? {};
  } catch {
    // A proxy in between speaks HTML: its status has to do.
  }
  const wait = Number(reply.headers.get("retry-after")) || null;
  const message = typeof told === "string" ? told : told.message;
  const code = typeof told === "string" ? "" : (told.code ?? "");
  return new Refusal(reply.status, code, message || `The server answered ${reply.status}.`, wait);
}
