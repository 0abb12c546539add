// The chip of the claimed ask's lease, in three colors: claimed, offline, lost.

import { clock, serverNow } from "../shell/clock.js";
import { every } from "../shell/page-life.js";
import { NO_CONTACT, isOut } from "../shell/post.js";
import { visible } from "../shell/visible-text.js";
import { Renewal } from "../forms/renewal.js";

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
 * Return what the page says about a lost claim, and whether it can be claimed again: not while someone else has it.
 * @param {{left: number, taken: boolean, holder: string}} state
 */
export function lostWords({ left, taken, holder }) {
  if (taken && holder) return { words: `${visible(holder)} has this ask now. Your text is saved.`, again: false };
  if (taken) return { words: "You lost the claim, and no one has the ask now. Your text is saved.", again: true };
  return left <= 0 ? { words: "Your claim expired. Your text is saved.", again: true } : { words: "", again: false };
}

export class Lease {
  /**
   * @param {HTMLElement} chip
   * @param {HTMLFormElement} form
   * @param {object} hears
   * @param {() => boolean} hears.sends returns whether the answer is on its way
   * @param {() => void} hears.closed
   * @param {(error: import("../shell/post.js").Refusal) => void} hears.out
   * @param {(said: {words: string, again: boolean}) => void} hears.lost no words while the claim is not lost
   */
  constructor(chip, form, { sends, closed, out, lost }) {
    this.chip = chip;
    this.closed = closed;
    this.out = out;
    this.lost = lost;
    this.deadline = Date.parse(document.querySelector("[data-in-hand] [data-deadline]").dataset.deadline);
    this.until = Date.parse(chip.dataset.until);
    this.trouble = "";
    this.taken = false;
    this.holder = "";
    this.stopped = false;
    this.renewal = new Renewal(chip, form, (result) => this.#renewed(result), () => this.stopped || sends());
    every(() => this.#say(), 500);
  }

  /** @param {import("../shell/post.js").Result} result */
  #renewed({ ok, answer, error }) {
    this.trouble = "";
    if (ok) [this.until, this.taken, this.holder] = [Date.parse(answer.lease_until), false, ""];
    else if (error.code === "too_late") this.closed();
    else if (isOut(error)) this.out(error);
    else if (error.code === "lease_lost") this.lostTo(error.held_by);
    else this.trouble = error.code === NO_CONTACT ? "Offline" : error.message.replace(/\.$/, "");
    this.#say();
  }

  /**
   * Show who claimed it; no name if no one did.
   * @param {string} name
   */
  lostTo(name = "") {
    [this.taken, this.holder] = [true, name];
    this.#say();
  }

  /**
   * Take a frame's word on who holds the ask, also when another holder gave it back.
   * @param {string} name
   * @param {string} me
   */
  heldBy(name, me) {
    if (name !== me && (name || this.taken)) this.lostTo(name);
  }

  /** Stop renewing; the ask is closed. */
  stop() {
    this.stopped = true;
    this.#say();
  }

  #say() {
    this.chip.hidden = this.stopped;
    if (this.stopped) return this.lost({ words: "", again: false });
    const left = (this.until - serverNow()) / 1000;
    const toDeadline = this.until >= this.deadline - 500;
    const { words, css } = leaseWords({ ...this, left, toDeadline, nextIn: (this.renewal.nextAt - Date.now()) / 1000 });
    const say = this.chip.querySelector("[data-say]");
    if (say.textContent !== words) say.textContent = words;
    for (const name of ["act", "ask", "bad"]) this.chip.classList.toggle(name, name === css);
    this.lost(lostWords({ ...this, left }));
  }
}
