// One POST as a script, and what came of it in words. A server that refuses is told apart from no contact at all.

export const NO_CONTACT = "no_contact";

/** The words of a refusal: the envelope's, else the headline of the page that came instead. */
export function wordsOf(status, type, body) {
  if (type.includes("json")) {
    try {
      const { error } = JSON.parse(body);
      if (error?.message) return error;
    } catch {
      // an envelope cut short says nothing; the status is left
    }
  }
  const head = /<h1[^>]*>([^<]*)</.exec(body);
  return { code: String(status), message: head ? head[1].trim() : `The server answered ${status}.` };
}

/**
 * `{ok, answer}` or `{ok: false, error: {code, message}}`. The code is the contract's, the status where no envelope came,
 * "signed_out" where the door to sign in answered, "no_contact" where nobody did.
 */
export async function post(path, body, { token = "", fetch: ask = globalThis.fetch } = {}) {
  let response;
  let text;
  try {
    response = await ask(path, {
      method: "POST", credentials: "same-origin", headers: { Accept: "application/json", "X-CSRFToken": token }, body,
    });
    text = await response.text();
  } catch {
    return { ok: false, error: { code: NO_CONTACT, message: "No contact with the server." } };
  }
  if (response.redirected) return { ok: false, error: { code: "signed_out", message: "You are signed out." } };
  const type = response.headers.get("Content-Type") || "";
  if (response.ok && type.includes("json")) return { ok: true, answer: JSON.parse(text) };
  return { ok: false, error: wordsOf(response.status, type, text) };
}

/** Refusals after which this page can do nothing more here: out of the project, out of the role, signed out. */
export function isOut(error) {
  return ["not_found", "404", "forbidden", "signed_out"].includes(error.code);
}

/** What a person is told who was let in before and is not any more. */
export function outWords(error) {
  if (error.code === "signed_out") return "You are signed out.";
  return error.code === "forbidden" ? error.message : "You are no longer in this project.";
}
