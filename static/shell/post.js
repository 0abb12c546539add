// One POST by a script, and its result in words. A refusal differs from no response at all.

import { visible } from "./visible-text.js";

export const NO_CONTACT = "no_contact";

/** Return the CSRF token of the page. */
export const csrf = () => globalThis.document?.querySelector('meta[name="csrf"]')?.content || "";

/**
 * @typedef {{code: string, message: string, [beside: string]: any}} Refusal
 * @typedef {{ok: boolean, answer?: any, error?: Refusal}} Result
 */

/**
 * Return a refusal as words that can be shown: those of the envelope, else the headline of the page that came instead.
 * @param {number} status
 * @param {string} type
 * @param {string} body
 * @param {(json: string) => any} [parse]
 * @returns {Refusal}
 */
export function wordsOf(status, type, body, parse = JSON.parse) {
  const said = saidOf(status, type, body, parse);
  return { ...said, message: visible(said.message) };
}

function saidOf(status, type, body, parse) {
  if (type.includes("json")) {
    try {
      const { error, ...beside } = parse(body);
      if (error?.message) return { ...error, ...beside };
    } catch {
      // a truncated envelope has no words; use the status
    }
  }
  if (type.startsWith("text/plain") && body) return { code: String(status), message: body };
  const head = /<h1[^>]*>([^<]*)</.exec(body);
  return { code: String(status), message: head ? head[1].trim() : `The server responded ${status}.` };
}

/**
 * POST `body`; return `{ok, answer}` or `{ok: false, error: {code, message}}`. The code is the API's, the status without an
 * envelope, "signed_out" without a session, or "no_contact" without a response. The error has the other
 * fields of the envelope, too; `parse` reads it. More options go to `fetch`.
 * @param {string} path
 * @param {BodyInit} body
 * @param {{fetch?: typeof fetch, parse?: (json: string) => any} & RequestInit} [options]
 * @returns {Promise<Result>}
 */
export async function post(path, body, { fetch: ask = globalThis.fetch, headers = {}, parse = JSON.parse, ...more } = {}) {
  let response;
  let text;
  try {
    response = await ask(path, {
      method: "POST", credentials: "same-origin", headers: { Accept: "application/json", "X-CSRFToken": csrf(), ...headers }, body, ...more,
    });
    text = await response.text();
  } catch {
    return { ok: false, error: { code: NO_CONTACT, message: "Can't reach the server." } };
  }
  if (response.status === 401) {
    globalThis.document?.dispatchEvent(new CustomEvent("awm:signed-out"));
    return { ok: false, error: { code: "signed_out", message: "You are signed out." } };
  }
  const type = response.headers.get("Content-Type") || "";
  if (response.ok && type.includes("json")) return { ok: true, answer: JSON.parse(text) };
  return { ok: false, error: wordsOf(response.status, type, text, parse) };
}

/**
 * Return whether this page can do nothing more after a refusal: not a member, not in the role, or signed out.
 * @param {Refusal} error
 */
export function isOut(error) {
  return ["not_found", "404", "forbidden", "signed_out"].includes(error.code);
}

/**
 * Return the words for a person who has lost access.
 * @param {Refusal} error
 */
export function outWords(error) {
  if (error.code === "signed_out") return "You are signed out.";
  return error.code === "forbidden" ? error.message : "You are no longer a member of this project.";
}
