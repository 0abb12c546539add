// Feedback about a question and an unsent text: tags by one key, and the text that a closed ask left behind.

import { isEmpty, joined } from "../forms/drafts.js";
import { parseExact, writeExact } from "../forms/exact-json.js";
import { showAgain } from "../shell/address.js";
import { bind } from "../shell/keys.js";
import { life } from "../shell/page-life.js";
import { fetchFragment } from "../shell/connection.js";
import { post } from "../shell/post.js";
import { swap } from "./answer-assist.js";
import { page } from "./ask-form.js";
import { say } from "../shell/toast.js";

async function press(act) {
  const button = document.querySelector(`button[name="tag"][data-act="${act}"]`);
  if (!button) return;
  const [root, body] = [page, new FormData()];
  /** @type {HTMLFormElement} */
  const form = document.getElementById("tag-form");
  body.set("tag", button.value);
  try {
    swap(root, await fetchFragment(form.action, body), "tags");
  } catch (error) {
    say(error instanceof TypeError ? "Not saved: can't reach the server." : error.message, true);
  }
}

let pressed = Promise.resolve(); // the second press refers to the state after the first

/** Bind the tag buttons: each press moves to the next state (yes, no, not set). */
export function startTags() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest('button[name="tag"]');
    if (!button) return;
    event.preventDefault();
    pressed = pressed.then(() => press(button.dataset.act));
  }, { signal: life() });
}

const PATIENCE_MS = 10_000;

const deliver = (path, given, more = {}) => {
  const body = new FormData();
  for (const [name, value] of Object.entries(given)) body.set(name, value);
  return post(path, body, { parse: parseExact, ...more });
};

/** @type {(draft: import("../forms/drafts.js").Words, version: number) => ReturnType<typeof post>} */
const keep = ({ text, calls, decision }, version) => deliver(
  page.dataset.keep,
  { text, tool_calls: writeExact(calls || []), version, ...(decision && { decision: writeExact(decision) }) },
  { signal: AbortSignal.timeout(PATIENCE_MS) }, // what the server has is offered meanwhile; the next load tries again
);

/** Save what only this device has on the server, and return whether the page is shown again with it. */
async function rescue(store) {
  const kept = store.all().filter((one) => !isEmpty(one)).sort((a, b) => (b.version || 0) - (a.version || 0) || b.at - a.at);
  for (const mine of kept) {
    let { ok, error } = await keep(mine, mine.version || 0);
    if (error?.draft) ({ ok, error } = await keep(joined(error.draft, mine), error.draft.version));
    if (!ok) return false; // the next load tries again; the text is still on this device
  }
  store.clear();
  if (kept.length) showAgain();
  return kept.length > 0;
}

/**
 * Offer to save (y) or discard (n) a text that was not sent before the ask closed.
 * @param {import("../forms/drafts.js").Store} store
 */
export async function startUnsent(store) {
  const form = document.querySelector("form[data-unsent]");
  if (!form) return void rescue(store);
  form.inert = true; // a decision is on all that this device has, and the page that shows it comes first
  bind("keep", () => form.requestSubmit(), () => !form.inert);
  bind("discard", async () => {
    const { ok, error } = await deliver(page.dataset.keep, { text: "", version: form.dataset.version });
    if (ok) showAgain();
    else say(error.message, true);
  }, () => !form.inert);
  form.inert = await rescue(store);
}
