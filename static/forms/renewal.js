// The lease of an ask or a review, renewed while its page is open: every 25 s, 5 s after a request that failed, and right
// away when the network or the tab is back or the server closes the socket.

import { whenRefused } from "../shell/connection.js";
import { every, life } from "../shell/page-life.js";
import { isOut, post } from "../shell/post.js";

const RENEW_MS = 25_000;
const AGAIN_MS = 5_000;
const FINAL = new Set(["too_late", "lease_lost"]);

export class Renewal {
  /**
   * @param {HTMLElement} chip it has the address that renews the lease
   * @param {HTMLFormElement} form it has the token of the lease
   * @param {(result: import("../shell/post.js").Result) => void} heard
   * @param {() => boolean} [pauses] returns whether there is nothing to renew now
   */
  constructor(chip, form, heard, pauses = () => false) {
    this.path = chip.dataset.renew;
    this.form = form;
    this.heard = heard;
    this.pauses = pauses;
    this.nextAt = Date.now() + RENEW_MS;
    this.over = life();
    every(() => { if (Date.now() >= this.nextAt) this.renew(); }, 500);
    const now = () => this.renew();
    addEventListener("online", now, { signal: life() });
    document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") now(); }, { signal: life() });
    whenRefused(now); // the response says why
  }

  async renew() {
    if (this.pauses()) return;
    this.nextAt = Date.now() + RENEW_MS;
    const token = /** @type {HTMLInputElement} */ (this.form.elements.namedItem("lease_token"));
    const result = await post(this.path, new URLSearchParams({ lease_token: token.value }));
    if (this.over.aborted) return; // the next item is on the page
    if (!result.ok && !isOut(result.error) && !FINAL.has(result.error.code)) this.nextAt = Date.now() + AGAIN_MS;
    this.heard(result);
  }
}
