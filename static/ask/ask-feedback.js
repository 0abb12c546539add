// Feedback about a question and an unsent text: tags by one key, and the text that a closed ask left behind.

import { isEmpty } from "../forms/drafts.js";
import { writeExact } from "../forms/exact-json.js";
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

const deliver = (path, given) => {
  const body = new FormData();
  for (const [name, value] of Object.entries(given)) body.set(name, value);
  return post(path, body);
};

/** Save text that only this device has on the server, before the page asks about it. */
async function rescue(store) {
  const [newest] = store.all().filter((one) => !isEmpty(one)).sort((a, b) => b.at - a.at);
  if (!newest) return store.clear();
  const given = { text: newest.text, tool_calls: writeExact(newest.calls), version: newest.version || 0 };
  let { ok, error } = await deliver(page.dataset.keep, given);
  if (error?.draft) {
    const both = error.draft.text.includes(newest.text) ? error.draft.text : `${error.draft.text}\n\n${newest.text}`;
    ({ ok, error } = await deliver(page.dataset.keep, { ...given, text: both, version: error.draft.version }));
  }
  if (!ok) return; // the next load tries again; the text is still on this device
  store.clear();
  showAgain();
}

/**
 * Offer to save (y) or discard (n) a text that was not sent before the ask closed.
 * @param {import("../forms/drafts.js").Store} store
 */
export function startUnsent(store) {
  rescue(store);
  const form = document.querySelector("form[data-unsent]");
  if (!form) return;
  bind("keep", () => form.requestSubmit());
  bind("discard", async () => {
    const { ok, error } = await deliver(page.dataset.keep, { text: "", version: form.dataset.version });
    if (ok) showAgain();
    else say(error.message, true);
  });
}
