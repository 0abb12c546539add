// The next ask in the place of the one that was answered. It is fetched while the person writes, claimed when they send, and
// shown while both requests are on their way. A fetched ask is kept for 2 minutes, and dropped when another ask opens or a
// frame says that it changed.

import { focusPart, opened } from "../shell/key-rule.js";
import { contentOf, fetchNext, keepAddress, showNext } from "../forms/next-page.js";
import { askOnce } from "../shell/delivery-toast.js";

const FRESH_MS = 20_000;
const OLD_MS = 120_000;

/** @typedef {import("../forms/next-page.js").Content} Content */
/** @typedef {{url: string, page: string | Content, lease?: {token: string, until: string}}} Next */

/** @type {{ask: string, page: string, at: number} | null} */
let fetched = null;
let looking = false;

/** Return the ask that comes next as far as this page knows, unclaimed, unless it was fetched too long ago. */
export const ahead = () => (fetched && Date.now() - fetched.at < OLD_MS ? fetched : null);

/**
 * Fetch the ask that comes next, unless that was done a moment ago.
 * @param {string} path
 */
export async function lookAhead(path) {
  if (looking || (fetched && Date.now() - fetched.at < FRESH_MS)) return;
  looking = true;
  const next = await fetchNext(path);
  fetched = { ask: "", page: "", ...next, at: Date.now() };
  looking = false;
}

/** Drop the fetched ask: another one that opens may come first, and it may be claimed or closed itself. */
function forget({ detail }) {
  const opens = detail.status === "open" && !detail.held_by;
  if (detail.type === "gap" || (detail.type === "ask" && (opens || detail.ask === fetched?.ask))) fetched = null;
}

/**
 * Show the fetched ask before its claim is known, so that reading and writing continue. None of it is started yet, and the
 * page before is kept out of sight: `back` shows it again, text and all.
 * @param {string} page
 */
export function showEarly(page) {
  const before = document.getElementById("main");
  const content = contentOf(page);
  content.main.setAttribute("aria-busy", "true");
  before.replaceWith(content.main);
  scrollTo(0, 0);
  opened(content.main);
  // a decision has no field before it is started: what is typed now would be its note
  const field = content.main.querySelector("[data-decision]") ? null : content.main.querySelector("textarea");
  focusPart(matchMedia("(pointer: fine)").matches && field ? field : content.main);
  const back = () => {
    content.main.replaceWith(before);
    opened(before);
  };
  return { content, back };
}

/**
 * Return a function that shows the page of another ask and starts it.
 * @param {() => void} start
 * @returns {(next: Next) => void}
 */
export const swapsTo = (start) => ({ url, page, lease }) => {
  fetched = null;
  showNext(typeof page === "string" ? contentOf(page) : page, url, lease, start);
  askOnce();
  if (lease) document.dispatchEvent(new CustomEvent("awm:frame", { detail: { type: "gap" } })); // catch up on changes since the fetch
};

document.addEventListener("awm:frame", forget);
keepAddress("ask");
