// The next review in the place of the one whose verdict was given. It is fetched while the reviewer works, claimed with their
// verdict, and shown once both are stored. A verdict that differs from the verifier's outcome opens its own page first.

import { contentOf, fetchNext, keepAddress, showNext } from "../forms/next-page.js";
import { bind } from "../shell/keys.js";
import { every, whenOver } from "../shell/page-life.js";
import { post } from "../shell/post.js";
import { refuse, say } from "../shell/toast.js";
import { forget } from "./review-drafts.js";

const BREATH_MS = 150; // the review that was swapped in is painted first
const OLD_MS = 120_000;

/** @typedef {{review: string, content: import("../forms/next-page.js").Content}} Next */

/** @type {Promise<Next | null> | null} what comes next as far as this page knows; unclaimed */
let fetched = null;
let sending = false;

/**
 * @param {HTMLButtonElement} button
 * @param {() => void} start
 * @param {() => Promise<boolean>} settle
 */
async function give(button, start, settle) {
  const form = /** @type {HTMLFormElement} */ (document.querySelector("[data-verdict-form]"));
  if (sending || !form.reportValidity()) return;
  sending = true;
  document.body.setAttribute("aria-busy", "true");
  if (await settle()) await send(button.dataset.verdictNext, new FormData(form), start);
  sending = false;
  document.body.removeAttribute("aria-busy");
}

async function send(path, body, start) {
  const known = await fetched;
  body.set("ahead", known?.review || "");
  const { ok, answer, error } = await post(path, body);
  if (!ok) return refuse(error.message);
  forget();
  if (!answer.lease) return location.assign(answer.next);
  showNext(answer.page ? contentOf(answer.page) : known.content, answer.next, answer.lease, start);
  return say(answer.verifier ? "Verdict given. The verifier agrees." : "Verdict given.");
}

/**
 * Fetch the next review and bind the keys of the verdict. `start` binds a page that was swapped in, `settle` saves typed
 * text before the verdict is given, and `sendsOther` handles a key that is pressed in another form.
 * @param {() => void} start
 * @param {() => Promise<boolean>} settle
 * @param {(event: Event) => boolean} sendsOther
 */
export function startNext(start, settle, sendsOther) {
  const { ahead } = document.getElementById("main").dataset;
  const button = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-verdict-next]"));
  if (!ahead || !button) return;
  button.hidden = false;
  fetched = null;
  const look = () => { fetched = fetchNext(ahead).then((next) => (next?.page ? { review: next.review, content: contentOf(next.page) } : null)); };
  const timer = setTimeout(look, BREATH_MS);
  whenOver(() => clearTimeout(timer));
  every(look, OLD_MS); // another reviewer may have claimed it meanwhile
  bind("complete", (event) => { if (!sendsOther(event)) give(button, start, settle); });
}

if (typeof document !== "undefined" && document.body?.dataset.page === "review") keepAddress("review");
