// The lease of the claimed ask: renewed while this page is open, shown in three colors: claimed, offline, lost.

import { clock, serverNow } from "../shell/clock.js";
import { every, life } from "../shell/page-life.js";
import { NO_CONTACT, isOut } from "../shell/post.js";
import { whenRefused } from "../shell/shell.js";
import { visible } from "../shell/visible-text.js";

const RENEW_MS = 25_000;
const AGAIN_MS = 5_000;

/**
 * Return the label and color of the chip (act, ask when offline, bad when lost). Times in seconds.
 * @param {{left: number, toDeadline: boolean, nextIn: number, trouble: string, taken: boolean, holder: string}} state
 */
export function leaseWords({ left, toDeadline, nextIn, trouble, taken, holder }) {
  if (taken) return { words: holder ? `Claimed by ${visible(holder)}; your text is saved` : "Claim lost; your text is saved", css: "bad" };
  if (left <= 0) return { words: "Claim expired; text saved", css: "bad" };
  if (trouble) return { words: `${trouble}, claimed for ${Math.round(left)} s more`, css: "ask" };
  return { words: toDeadline ? "Claimed until the deadline" : `Claimed, renews in ${clock(Math.max(0, nextIn))}`, css: "act" };
}

/**
 * Keep the lease of `chip`. `deliver(path)` posts the form's token; `idle()` says that the answer is on its way;
 * `closed()`, `cast(error)` and `lost(isGone)` hear what became of it.
 */
export class Lease {
  /**
   * @param {HTMLElement} chip
   * @param {object} hears
   * @param {(path: string) => Promise<import("../shell/post.js").Result>} hears.deliver
   * @param {() => boolean} hears.idle
   * @param {() => void} hears.closed
   * @param {(error: import("../shell/post.js").Refusal) => void} hears.cast
   * @param {(isGone: boolean) => void} hears.lost
   */
  constructor(chip, { deliver, idle, closed, cast, lost }) {
    this.chip = chip;
    this.deliver = deliver;
    this.idle = idle;
    this.closed = closed;
    this.cast = cast;
    this.lost = lost;
    this.deadline = Date.parse(document.querySelector("[data-in-hand] [data-deadline]").dataset.deadline);
    this.until = Date.parse(chip.dataset.until);
    this.nextAt = Date.now() + RENEW_MS;
    this.trouble = "";
    this.taken = false;
    this.holder = "";
    this.stopped = false;
    every(() => this.#tick(), 500);
    const now = () => this.renew();
    addEventListener("online", now, { signal: life() });
    document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") now(); }, { signal: life() });
    whenRefused(now); // the socket was cut off: ask what holds, in words
  }

  async renew() {
    if (this.stopped || this.idle()) return;
    this.nextAt = Date.now() + RENEW_MS;
    const { ok, answer, error } = await this.deliver(this.chip.dataset.renew);
    this.trouble = "";
    if (ok) [this.until, this.taken] = [Date.parse(answer.lease_until), false];
    else if (error.code === "too_late") this.closed();
    else if (isOut(error)) this.cast(error);
    else if (error.code === "lease_lost") this.taken = true;
    else {
      this.trouble = error.code === NO_CONTACT ? "Offline" : error.message.replace(/\.$/, "");
      this.nextAt = Date.now() + AGAIN_MS;
    }
    this.#say();
  }

  /** Show who claimed it, as a frame reported. */
  heldBy(name) {
    [this.taken, this.holder] = [true, name];
    this.#say();
  }

  /** Stop renewing; the ask is closed. */
  stop() {
    this.stopped = true;
    this.#say();
  }

  #tick() {
    if (Date.now() >= this.nextAt) this.renew();
    this.#say();
  }

  #say() {
    this.chip.hidden = this.stopped;
    if (this.stopped) return;
    const left = (this.until - serverNow()) / 1000;
    const toDeadline = this.until >= this.deadline - 500;
    const { words, css } = leaseWords({ ...this, left, toDeadline, nextIn: (this.nextAt - Date.now()) / 1000 });
    const say = this.chip.querySelector("[data-say]");
    if (say.textContent !== words) say.textContent = words;
    for (const name of ["act", "ask", "bad"]) this.chip.classList.toggle(name, name === css);
    this.lost(css === "bad");
  }
}
