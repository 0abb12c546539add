// The rows of a long list in memory, on the page or not: by number, with what the reader opened in them, which are out of date
// and which the server lacks. Owns no position on the page.

import { localise } from "../shell/clock.js";

const KEEP = 360;
export const AGAIN_MS = 1500; // a row that the server did not send is requested again after this

/** @typedef {HTMLElement & {came?: boolean[], age?: number}} Row what was open when it came, and when it was measured */

/** @param {Row} row */
const details = (row) => [...row.querySelectorAll("details")];

export class Kept {
  constructor() {
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    this.stale = new Set();
    this.asked = new Map();
    this.opened = new Map(); // only rows that differ from how they came
    this.allOpen = false;
  }

  get(seq) { return this.rows.get(seq); }

  /** Return whether nothing is to be requested: it is here and current, or was requested recently. */
  has(seq) {
    return (this.rows.has(seq) && !this.stale.has(seq)) || Date.now() - (this.asked.get(seq) || 0) < AGAIN_MS;
  }

  /** Return whether it is here, or the server lacks it. */
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

  /** Note that the server lacks a step; it is not requested again for `ms`. */
  miss(seq, ms = AGAIN_MS) { this.asked.set(seq, Date.now() + ms - AGAIN_MS); }

  /** Request all missing steps again. */
  hope() { this.asked.clear(); }

  outdate(seq) { if (this.rows.has(seq)) this.stale.add(seq); }

  /**
   * Note what the reader opened or closed in a row.
   * @param {Row} row
   */
  noteOpen(row) {
    const open = details(row).map((one) => one.open);
    if (open.every((one, n) => one === (this.allOpen || row.came?.[n]))) this.opened.delete(Number(row.dataset.seq));
    else this.opened.set(Number(row.dataset.seq), open);
  }

  /** Open everything in all rows, or close it if everything in `shown` is open. */
  openAll(shown) {
    this.allOpen = shown.flatMap(details).some((one) => !one.open);
    this.opened.clear();
    for (const row of [...this.rows.values(), ...shown]) for (const one of details(row)) one.open = this.allOpen;
  }

  /** Remove rows outside `from` to `to`, the oldest first, until few enough are left. */
  forget(from, to) {
    for (const seq of this.rows.keys()) {
      if (this.rows.size <= KEEP) return;
      if (seq < from || seq > to) this.rows.delete(seq);
    }
  }
}

/**
 * Return a blank row that reserves the height of a step; one that is the current step says that it is loading.
 * @param {Row | null} old the row of this step on the page
 * @param {number} seq
 * @param {number} height
 * @param {boolean} says
 */
export function blankRow(old, seq, height, says) {
  const row = old?.classList.contains("blank") ? old : document.createElement("li");
  if (row !== old) {
    row.className = "step blank";
    row.dataset.seq = String(seq);
    row.setAttribute("aria-busy", "true");
    row.style.height = `${height}px`;
  }
  if (says === !!row.firstChild) return row;
  row.replaceChildren(...(says ? [document.createElement("p")] : []));
  if (says) row.firstChild.textContent = `Step ${seq} is loading.`;
  return row;
}
