// The next review in the place of the one that was given, without a page load. It is drawn while the reviewer works, claimed
// with their verdict, and shown once both are stored; what differs from the verifier is shown first, on its own page.

import { bind } from "../shell/keys.js";
import { end, every, whenOver } from "../shell/page-life.js";
import { post } from "../shell/post.js";
import { forget } from "./review-drafts.js";
import { announce, renew } from "../shell/shell.js";
import { refuse, say } from "../shell/toast.js";

const BREATH_MS = 150; // the review that was swapped in is painted first
const OLD_MS = 120_000;

/** @typedef {{main: HTMLElement, title: string}} Content */
/** @typedef {{review: string, content: Content | null}} Drawn */

/** @type {Promise<Drawn> | null} what comes next as far as this page knows; unclaimed */
let drawn = null;
let sending = false;

/** @type {Drawn} */
const NONE = { review: "", content: null };

/**
 * The content of a page that came as text.
 * @param {string} page
 * @returns {Content}
 */
function contentOf(page) {
  const fresh = new DOMParser().parseFromString(page, "text/html");
  return { main: document.importNode(fresh.getElementById("main"), true), title: fresh.title.trim() };
}

/**
 * A failure costs the time of one page after the verdict.
 * @param {string} path
 * @returns {Promise<Drawn>}
 */
async function draw(path) {
  try {
    const response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (response.status !== 200 || response.redirected) return NONE;
    const { review, page } = await response.json();
    return { review, content: contentOf(page) };
  } catch {
    return NONE;
  }
}

/**
 * Put a page's content here and start it.
 * @param {Content} content
 * @param {{next: string, lease: {token: string, until: string}, verifier: string}} told
 * @param {() => void} start
 */
function show({ main, title }, { next, lease, verifier }, start) {
  for (const field of main.querySelectorAll('input[name="lease_token"]')) /** @type {HTMLInputElement} */ (field).value = lease.token;
  const line = /** @type {HTMLElement} */ (main.querySelector("[data-lease]"));
  line.dataset.until = lease.until;
  line.textContent = `Claimed until ${new Date(lease.until).toLocaleTimeString([], { hour12: false })}`;
  end();
  history.pushState(null, "", next);
  document.getElementById("main").replaceWith(main);
  scrollTo(0, 0);
  document.body.dataset.title = title;
  renew();
  start();
  say(verifier ? "Verdict given. The verifier agrees." : "Verdict given.");
  announce(`Next review: ${main.querySelector("h1")?.textContent || ""}`);
}

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
  const fine = await settle();
  if (!fine) {
    sending = false;
    document.body.removeAttribute("aria-busy");
    return;
  }
  const known = (await drawn) || NONE;
  const body = new FormData(form);
  body.set("ahead", known.review);
  const { ok, answer, error } = await post(button.dataset.verdictNext, body, { token: String(body.get("csrfmiddlewaretoken")) });
  sending = false;
  document.body.removeAttribute("aria-busy");
  if (ok) forget();
  if (!ok) refuse(error.message);
  else if (answer.lease) show(answer.page ? contentOf(answer.page) : known.content, answer, start);
  else location.assign(answer.next);
}

/**
 * Draw ahead and listen for the verdict; `start` binds a page that was swapped in, `settle` saves what was typed before the
 * verdict is given, `sendsOther` takes a key that is pressed in another form.
 * @param {() => void} start
 * @param {() => Promise<boolean>} settle
 * @param {(event: Event) => boolean} sendsOther
 */
export function startNext(start, settle, sendsOther) {
  const { ahead } = document.getElementById("main").dataset;
  const button = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-verdict-next]"));
  if (!ahead || !button) return;
  button.hidden = false;
  drawn = null;
  const look = () => { drawn = draw(ahead); };
  const timer = setTimeout(look, BREATH_MS);
  whenOver(() => clearTimeout(timer));
  every(look, OLD_MS); // another reviewer may have claimed it meanwhile
  bind("complete-next", (event) => { if (!sendsOther(event)) give(button, start, settle); });
}

/** Load the page of the address if another review is shown: someone went back. */
function obeyAddress() {
  const { review } = document.getElementById("main").dataset;
  if (review && !location.pathname.startsWith(`/reviews/${review}/`)) location.reload();
}

if (typeof document !== "undefined" && document.body?.dataset.page === "review") addEventListener("popstate", obeyAddress);
