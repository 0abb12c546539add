// The page of the next ask or review in the place of the one that was sent, without a page load. It is fetched ahead while
// the person works, and shown once it is claimed. The address moves with it: reloading opens the item that is shown, and
// going back loads the page before. What the old page started ends with `page-life.js`; the shell stays.

import { inProject, isBeside } from "../shell/address.js";
import { focusPart, isLost, opened } from "../shell/key-rule.js";
import { end } from "../shell/page-life.js";
import { renew } from "../shell/shell.js";
import { announce } from "../shell/toast.js";

/** @typedef {{main: HTMLElement, title: string}} Content */

/**
 * Return the content of a page that came as text.
 * @param {string} page
 * @returns {Content}
 */
export function contentOf(page) {
  const fresh = new DOMParser().parseFromString(page, "text/html");
  return { main: document.importNode(fresh.getElementById("main"), true), title: fresh.title.trim() };
}

/**
 * Fetch what comes next, or null. A failure costs the time of one page load after the answer.
 * @param {string} path
 */
export async function fetchNext(path) {
  try {
    const response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
    return response.status === 200 && !response.redirected ? await response.json() : null;
  } catch {
    return null;
  }
}

/**
 * Show `content` at the address `url` and start it. Content that was fetched before its claim gets the lease.
 * @param {Content} content
 * @param {string} url
 * @param {{token: string, until: string} | undefined} lease
 * @param {() => void} start
 */
export function showNext({ main, title }, url, lease, start) {
  if (lease) {
    for (const field of main.querySelectorAll('input[name="lease_token"]')) field.value = lease.token;
    const chip = main.querySelector("[data-lease]");
    if (chip) chip.dataset.until = lease.until;
  }
  history.pushState(null, "", url);
  mount(main, title, start);
  announce(`Next ${document.body.dataset.page}: ${main.querySelector("h1")?.textContent || ""}`);
}

/**
 * Show the item of the address again, as it is now.
 * @param {Content} content
 * @param {() => void} start
 */
export function showSame({ main, title }, start) {
  mount(main, title, start);
  announce(main.querySelector("[data-revealed] h2")?.textContent || "");
}

/** @param {HTMLElement} main @param {string} title @param {() => void} start */
function mount(main, title, start) {
  end();
  if (!main.isConnected) {
    document.getElementById("main").replaceWith(main);
    /** @type {any} */ (globalThis).htmx?.process(main); // parts that load themselves
    scrollTo(0, 0);
  }
  main.removeAttribute("aria-busy");
  document.body.removeAttribute("aria-busy");
  document.body.dataset.title = title;
  renew();
  opened(main);
  start();
  if (isLost()) focusPart(main);
}

/**
 * Load the page of the address if another item is shown: someone went back, maybe before this script ran.
 * @param {string} kind `ask` or `review`, as in the address and in the attribute with the item's ID
 */
export function keepAddress(kind) {
  const check = () => {
    if (isBeside()) return; // the address is the list's
    const id = document.getElementById("main").dataset[kind];
    if (id && !location.pathname.startsWith(inProject(`${kind}s/${id}/`))) location.reload();
  };
  addEventListener("popstate", check);
  check();
}
