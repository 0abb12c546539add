// The next ask in the place of the one that was answered, without a page load. It is fetched while the person writes,
// claimed when they send, and shown while both are on their way. The address moves with it once it is claimed, so reload
// opens the ask that is shown; going back loads the page before.

import { askOnce } from "../shell/delivery-toast.js";
import { end } from "../shell/page-life.js";
import { announce, renew } from "../shell/shell.js";

const FRESH_MS = 20_000;
const OLD_MS = 120_000;

/** @typedef {{main: HTMLElement, title: string}} Content */
/** @typedef {{url: string, page: string | Content, lease?: {token: string, until: string}}} Next */

/** @type {{ask: string, page: string, at: number} | null} */
let fetched = null;
let looking = false;

/** The ask that comes next as far as this page knows, unclaimed; a fetch that is long ago counts no more. */
export const ahead = () => (fetched && Date.now() - fetched.at < OLD_MS ? fetched : null);

/**
 * Fetch the ask that comes next, unless that was done a moment ago. A failure costs the time of one page at the end.
 * @param {string} path
 */
export async function lookAhead(path) {
  if (looking || (fetched && Date.now() - fetched.at < FRESH_MS)) return;
  looking = true;
  try {
    const response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
    const isPage = response.status === 200 && !response.redirected;
    fetched = { at: Date.now(), ...(isPage ? await response.json() : { ask: "", page: "" }) };
  } catch {
    fetched = { at: Date.now(), ask: "", page: "" }; // no contact: the answer to the form brings the page
  }
  looking = false;
}

/** Another ask that opens may come first, and the one that was fetched may be claimed or closed. */
function forget({ detail }) {
  const opens = detail.status === "open" && !detail.held_by;
  if (detail.type === "gap" || (detail.type === "ask" && (opens || detail.ask === fetched?.ask))) fetched = null;
}

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
 * Show the fetched ask before its claim is known, so that reading and writing go on at once. Nothing of it is started yet,
 * and what was shown lives on out of sight: `back` puts it here again, text and all.
 * @param {string} page
 */
export function showEarly(page) {
  const before = document.getElementById("main");
  const content = contentOf(page);
  content.main.setAttribute("aria-busy", "true");
  before.replaceWith(content.main);
  scrollTo(0, 0);
  if (matchMedia("(pointer: fine)").matches) content.main.querySelector("textarea")?.focus({ preventScroll: true });
  return { content, back: () => content.main.replaceWith(before) };
}

/**
 * A function that puts the page of another ask here and starts it.
 * @param {() => void} start
 * @returns {(next: Next) => void}
 */
export const swapsTo = (start) => ({ url, page, lease }) => {
  const { main, title } = typeof page === "string" ? contentOf(page) : page;
  if (lease) hold(main, lease);
  fetched = null;
  end();
  history.pushState(null, "", url);
  if (!main.isConnected) {
    document.getElementById("main").replaceWith(main);
    scrollTo(0, 0);
  }
  main.removeAttribute("aria-busy");
  document.body.removeAttribute("aria-busy");
  document.body.dataset.title = title;
  renew();
  start();
  askOnce();
  if (lease) document.dispatchEvent(new CustomEvent("awm:frame", { detail: { type: "gap" } })); // what was told since the fetch
  announce(`Next ask: ${main.querySelector("h1")?.textContent || ""}`);
};

/** What was fetched before the claim gets the lease. */
function hold(main, { token, until }) {
  for (const field of main.querySelectorAll('input[name="lease_token"]')) field.value = token;
  const chip = main.querySelector("[data-lease]");
  if (chip) chip.dataset.until = until;
}

/** Load the page of the address if another ask is shown: someone went back, maybe before this script ran. */
function obeyAddress() {
  const { ask } = document.getElementById("main").dataset;
  if (!location.pathname.startsWith(`/asks/${ask}/`)) location.reload();
}

document.addEventListener("awm:frame", forget);
addEventListener("popstate", obeyAddress);
obeyAddress();
