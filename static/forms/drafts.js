// The text in progress of an answer, kept in two places: on this device at every keystroke, on the server 0.8 s after the last
// one, at least every 4 s, on blur, and with `keepalive` when the tab is hidden or closed. Retries back off to 10 s.
//
// The device has one entry per page load (`awmweb-draft-<ask>:<page>`) with the version of the server's draft that it started
// from. The server refuses a save over a newer version with the newer text (409 `draft_conflict`). If this page sent that text,
// or its text continues it, saving goes on; otherwise a person chooses. Pure except for what is passed in.

import { parseExact, writeExact } from "./exact-json.js";
import { pauseBefore } from "../shell/stream.js";

const QUIET_MS = 800; // after the last keystroke
const LONGEST_MS = 4000; // while typing continues
const PENDING = 5;

/**
 * @typedef {{name: string, arguments: Record<string, unknown>}} Call
 * @typedef {{text: string, calls?: Call[], drafted?: string, decision?: object | null}} Words
 * @typedef {Words & {at: number, version?: number, nonce?: string, sent?: Words[], saved_at?: string}} Entry
 */

/**
 * Return whether two texts are the same, calls and decision included.
 * @param {Partial<Words> | null} a
 * @param {Partial<Words> | null} b
 */
export function same(a, b) {
  return (a?.text || "") === (b?.text || "") && JSON.stringify(a?.calls || []) === JSON.stringify(b?.calls || [])
    && JSON.stringify(a?.decision || null) === JSON.stringify(b?.decision || null);
}

/**
 * @param {Words | null} words
 */
export const isEmpty = (words) => !words?.text?.trim() && !words?.calls?.length && !words?.decision;

/** Return what a text began with once `keys` are in it: the last model draft and the last earlier answer. */
export function beganWith(before = "", keys = "") {
  const all = `${before} ${keys}`.split(" ").filter(Boolean);
  return [...new Map(all.map((key) => [key.split(":")[0], key])).values()].join(" ");
}

/** Return whether the longer text continues the shorter one. */
const goesOn = (longer, shorter) => longer.text.startsWith(shorter.text) && (!shorter.calls?.length || same({ calls: longer.calls }, { calls: shorter.calls }))
  && (!shorter.decision || same({ decision: longer.decision }, { decision: shorter.decision }));

/**
 * Return the text that the form starts with, the server's or one of this device, and the `others` that this choice would lose.
 * An entry has its time, the server's version it started from, and what was sent of it.
 * @param {Entry} server
 * @param {Entry[]} entries
 */
export function best(server, entries) {
  const kept = entries.filter((one) => !isEmpty(one)).sort((a, b) => b.at - a.at);
  let words = server;
  const others = [];
  const [newest] = kept;
  if (newest && !same(newest, server)) {
    const later = isEmpty(server) || newest.version === server.version || newest.sent?.some((one) => same(one, server)) || goesOn(newest, server);
    if (later) words = newest;
    else if (!goesOn(server, newest)) {
      words = newest.at >= server.at ? newest : server;
      others.push(words === newest ? server : newest);
    }
  } else if (newest) words = { ...server, nonce: newest.nonce };
  for (const one of kept.slice(1)) {
    if (![words, ...others].some((shown) => same(shown, one) || goesOn(shown, one))) others.push(one);
  }
  return { words, others };
}

/**
 * Return a newer draft of the server with all that an older one of this device has. One decision stays one: where both decide,
 * the older decision follows the text in words, which the server sends as `other`.
 * @param {Words & {other?: string[]}} newer
 * @param {Words & {sent?: Words[]}} mine
 * @returns {Words}
 */
export function joined(newer, mine) {
  if (goesOn(mine, newer) || mine.sent?.some((one) => same(one, newer))) return mine;
  const has = (part) => newer.text.startsWith(part) || `\n\n${newer.text}\n\n`.includes(`\n\n${part}\n\n`);
  const parts = [mine.text, mine.decision && newer.other?.length ? `Another draft:\n${newer.other.join("\n")}` : ""];
  const calls = newer.calls || [];
  const more = (mine.calls || []).filter((call) => !calls.some((one) => same({ calls: [one] }, { calls: [call] })));
  return {
    text: [newer.text, ...parts.filter((part) => part && !has(part))].filter(Boolean).join("\n\n"),
    calls: [...calls, ...more],
    decision: newer.decision || mine.decision,
  };
}

/** The texts of one ask on this device, one per page that wrote one. */
export class Store {
  /**
   * @param {string} ask
   * @param {Storage} storage
   * @param {string} [page]
   */
  constructor(ask, storage, page = Math.random().toString(36).slice(2)) {
    this.storage = storage;
    this.prefix = `awmweb-draft-${ask}`;
    this.own = `${this.prefix}:${page}`;
  }

  #keys() {
    try {
      return Object.keys(this.storage).filter((key) => key === this.prefix || key.startsWith(`${this.prefix}:`));
    } catch {
      return [];
    }
  }

  /** Return the texts that earlier pages left on this device. */
  all() {
    return this.#keys().filter((key) => key !== this.own).flatMap((key) => {
      try {
        return [{ at: 0, calls: [], text: "", ...parseExact(this.storage.getItem(key)) }];
      } catch {
        return []; // skip a broken entry
      }
    });
  }

  /** Save this page's text; return false if this device stores nothing. */
  keep(entry) {
    try {
      this.storage.setItem(this.own, writeExact(entry));
      return true;
    } catch {
      return false;
    }
  }

  /** Remove this page's text. */
  drop() {
    try {
      this.storage.removeItem(this.own);
    } catch {
      // this device stores nothing
    }
  }

  /** Remove the other texts because this page's text has all of theirs. */
  dropOthers() {
    for (const key of this.#keys()) if (key !== this.own) this.storage.removeItem(key);
  }

  clear() {
    for (const key of this.#keys()) this.storage.removeItem(key);
  }
}

/**
 * Saves while a person writes. `read()` returns the text now; `deliver(words, version, keepalive)` posts it and returns the result
 * of `post`; `keep(words)` stores it on this device; `tell(state, detail)` receives saving, saved, here (on this device only),
 * closed (not even there), choose, refused and out.
 */
export class Saver {
  /**
   * @param {object} options
   * @param {() => Words} options.read
   * @param {(words: Words, version: number, keepalive: boolean) => Promise<import("../shell/post.js").Result>} options.deliver
   * @param {(words: Words) => boolean} options.keep
   * @param {(state: string, detail?: any) => void} options.tell
   * @param {number} [options.version]
   * @param {Words | null} [options.sent]
   * @param {import("../shell/stream.js").Timer} [options.timer]
   */
  constructor({ read, deliver, keep, tell, version = 0, sent = null, timer }) {
    this.read = read;
    this.deliver = deliver;
    this.keep = keep;
    this.tell = tell;
    this.version = version;
    this.sent = sent;
    this.timer = timer || { set: (job, ms) => setTimeout(job, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };
    this.pending = [];
    this.attempt = 0;
    this.state = "idle"; // or busy, choosing, stopped
    this.isPaused = false; // only this device keeps the text: no one has claimed its ask
  }

  /** Save a keystroke: on this device now, on the server after a pause. */
  touch() {
    if (this.state === "stopped") return;
    this.kept = this.keep(this.read());
    this.since ??= this.timer.now();
    const wait = Math.max(0, Math.min(QUIET_MS, this.since + LONGEST_MS - this.timer.now()));
    this.#later(wait);
    if (!this.kept) this.tell("closed");
  }

  #later(wait) {
    this.timer.clear(this.waiting);
    this.waiting = this.timer.set(() => this.save(), wait);
  }

  /** Return whether no save is in progress and the server has this text. */
  get settled() {
    return this.state !== "busy" && same(this.read(), this.sent);
  }

  async save() {
    this.timer.clear(this.waiting);
    if (this.state === "busy") {
      this.again = true;
      return;
    }
    const words = this.read();
    if (this.isPaused || this.state !== "idle" || same(words, this.sent) || (!this.sent && isEmpty(words))) return;
    this.state = "busy";
    this.since = undefined;
    this.#remember(words);
    this.tell("saving");
    const result = await this.deliver(words, this.version, false);
    if (this.state === "busy") this.state = "idle";
    this.#heard(words, result);
    if (this.again && this.state === "idle") {
      this.again = false;
      this.#later(0);
    }
  }

  /** Save without waiting because the page closes. The next load reads the result. */
  leave() {
    const words = this.read();
    if (this.isPaused || this.state === "stopped" || this.state === "choosing" || same(words, this.sent) || (!this.sent && isEmpty(words))) return;
    this.keep(words);
    this.#remember(words);
    this.deliver(words, this.version, true).then((result) => { if (result.ok) this.#heard(words, result); });
  }

  #remember(words) {
    this.pending = [...this.pending, words].slice(-PENDING);
  }

  /**
   * @param {Words} words
   * @param {import("../shell/post.js").Result} result
   */
  #heard(words, { ok, answer, error }) {
    if (this.state === "stopped") return;
    if (ok) {
      [this.version, this.sent, this.attempt] = [answer.version, words, 0];
      this.keep(this.read());
      this.tell("saved", answer.saved_at);
    } else if (error.code === "draft_conflict" && error.draft) this.#conflict(error.draft);
    else if (["not_found", "404", "forbidden", "signed_out"].includes(error.code)) {
      this.state = "stopped";
      this.tell("out", error);
    } else if (error.code === "no_contact" || Number(error.code) >= 500 || ["unavailable", "busy"].includes(error.code)) {
      this.tell("here");
      this.#later(pauseBefore(this.attempt++));
    } else this.tell("refused", error.message);
  }

  #conflict(other) {
    const mine = this.read();
    if (same(other, mine)) {
      [this.version, this.sent] = [other.version, other];
      this.tell("saved");
    } else if (this.pending.some((one) => same(one, other)) || goesOn(mine, other)) {
      [this.version, this.sent] = [other.version, other]; // this page's own text, whose response was lost
      this.#later(0);
    } else {
      this.state = "choosing";
      this.tell("choose", other);
    }
  }

  /** Continue with the text that the person chose; `version` is the server's. */
  chosen(version = this.version) {
    if (this.state === "choosing") this.state = "idle";
    [this.version, this.sent] = [version, null];
    this.keep(this.read());
    this.#later(0);
  }

  /** Save again because the network is back. */
  retry() {
    this.attempt = 0;
    if (this.state === "idle" && !same(this.read(), this.sent)) this.#later(0);
  }

  stop() {
    this.state = "stopped";
    this.timer.clear(this.waiting);
  }
}
