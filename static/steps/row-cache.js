// The rows of a long list that are kept, whether they are on the page or not: by number, with what the reader opened in
// them, which are out of date and which the server has not. Owns no place on the page.

import { localise } from "../shell/clock.js";

const KEEP = 360;
export const AGAIN_MS = 1500; // a row that the server did not send is asked for again after this

/** @typedef {HTMLElement & {came?: boolean[], age?: number}} Row what was open when it came, and when it was measured */

/** @param {Row} row */
const details = (row) => [...row.querySelectorAll("details")];

export class Kept {
  constructor() {
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    this.stale = new Set();
    this.asked = new Map();
    this.opened = new Map(); // only of rows that stand otherwise than they came
    this.allOpen = false;
  }

  get(seq) { return this.rows.get(seq); }

  /** Nothing to ask for: it is here as the server has it, or was asked for lately. */
  has(seq) {
    return (this.rows.has(seq) && !this.stale.has(seq)) || Date.now() - (this.asked.get(seq) || 0) < AGAIN_MS;
  }

  /** It is here, or the server has said that it is not. */
  settled(seq) { return this.rows.has(seq) || this.asked.has(seq); }

  /** @param {Row} row */
  keep(row) {
    const seq = Number(row.dataset.seq);
    const open = this.opened.get(seq);
    row.came = details(row).map((one) => one.open);
    details(row).forEach((one, n) => { one.open = open?.[n] ?? (this.allOpen || one.open); });
    for (const time of row.querySelectorAll("time[data-time]")) localise(time);
    this.rows.delete(seq);
    this.rows.set(seq, row);
    this.stale.delete(seq);
    this.asked.delete(seq);
  }

  /** Asked for and not there; for `ms` nobody asks again. */
  miss(seq, ms = AGAIN_MS) { this.asked.set(seq, Date.now() + ms - AGAIN_MS); }

  /** Ask for everything again that was not there. */
  hope() { this.asked.clear(); }

  outdate(seq) { if (this.rows.has(seq)) this.stale.add(seq); }

  /**
   * The reader opened or closed something in a row.
   * @param {Row} row
   */
  noteOpen(row) {
    const open = details(row).map((one) => one.open);
    if (open.every((one, n) => one === (this.allOpen || row.came?.[n]))) this.opened.delete(Number(row.dataset.seq));
    else this.opened.set(Number(row.dataset.seq), open);
  }

  /** Open everything in all rows, or close it if everything of `shown` is open. */
  openAll(shown) {
    this.allOpen = shown.flatMap(details).some((one) => !one.open);
    this.opened.clear();
    for (const row of [...this.rows.values(), ...shown]) for (const one of details(row)) one.open = this.allOpen;
  }

  /** Forget rows outside of `from` to `to`, the first that came first, until few enough are left. */
  forget(from, to) {
    for (const seq of this.rows.keys()) {
      if (this.rows.size <= KEEP) return;
      if (seq < from || seq > to) this.rows.delete(seq);
    }
  }
}
