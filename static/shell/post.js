// One POST as a script, and what came of it in words. A server that refuses is told apart from no contact at all.

import { visible } from "./visible-text.js";

export const NO_CONTACT = "no_contact";

/** Return the token against forged requests that came with the page. */
export const csrf = () => globalThis.document?.querySelector('meta[name="csrf"]')?.content || "";

/**
 * @typedef {{code: string, message: string, [beside: string]: any}} Refusal
 * @typedef {{ok: boolean, answer?: any, error?: Refusal}} Result
 */

/**
 * The words of a refusal, fit to be shown: the envelope's, else the headline of the page that came instead.
 * @param {number} status
 * @param {string} type
 * @param {string} body
 * @returns {Refusal}
 */
export function wordsOf(status, type, body) {
  const said = saidOf(status, type, body);
  return { ...said, message: visible(said.message) };
}

function saidOf(status, type, body) {
  if (type.includes("json")) {
    try {
      const { error, ...beside } = JSON.parse(body);
      if (error?.message) return { ...error, ...beside };
    } catch {
      // an envelope cut short says nothing; the status is left
    }
  }
  if (type.startsWith("text/plain") && body) return { code: String(status), message: body };
  const head = /<h1[^>]*>([^<]*)</.exec(body);
  return { code: String(status), message: head ? head[1].trim() : `The server responded ${status}.` };
}

/**
 * `{ok, answer}` or `{ok: false, error: {code, message}}`. The code is the contract's, the status where no envelope came,
 * "signed_out" where the door to sign in answered, "no_contact" where nobody did. What else stands in the envelope
 * comes with the error; further options are fetch's.
 * @param {string} path
 * @param {BodyInit} body
 * @param {{fetch?: typeof fetch} & RequestInit} [options]
 * @returns {Promise<Result>}
 */
export async function post(path, body, { fetch: ask = globalThis.fetch, headers = {}, ...more } = {}) {
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
  if (response.redirected) return { ok: false, error: { code: "signed_out", message: "You are signed out." } };
  const type = response.headers.get("Content-Type") || "";
  if (response.ok && type.includes("json")) return { ok: true, answer: JSON.parse(text) };
  return { ok: false, error: wordsOf(response.status, type, text) };
}

/**
 * Refusals after which this page can do nothing more here: out of the project, out of the role, signed out.
 * @param {Refusal} error
 */
export function isOut(error) {
  return ["not_found", "404", "forbidden", "signed_out"].includes(error.code);
}

/**
 * What a person is told who was let in before and is not any more.
 * @param {Refusal} error
 */
export function outWords(error) {
  if (error.code === "signed_out") return "You are signed out.";
  return error.code === "forbidden" ? error.message : "You are no longer a member of this project.";
}
