// What a person is writing, kept in two places: on this device at every stroke, on the server a moment later. Whatever
// breaks in between (a reload, a crash, a locked phone, a change of network, a second tab), no words are lost: of two
// texts that know of each other the later one goes on, of two that do not a person chooses. Pure but for what is passed.

import { pauseBefore } from "../shell/stream.js";

const QUIET_MS = 800; // after the last stroke
const LONGEST_MS = 4000; // while typing goes on
const PENDING = 5;

/**
 * @typedef {{name: string, arguments: Record<string, unknown>}} Call
 * @typedef {{text: string, calls?: Call[], drafted?: string}} Words
 * @typedef {Words & {at: number, version?: number, nonce?: string, sent?: Words[], saved_at?: string}} Entry
 */

/**
 * Whether two texts say the same, calls included.
 * @param {Partial<Words> | null} a
 * @param {Partial<Words> | null} b
 */
export function same(a, b) {
  return (a?.text || "") === (b?.text || "") && JSON.stringify(a?.calls || []) === JSON.stringify(b?.calls || []);
}

/**
 * @param {Words | null} words
 */
export const isEmpty = (words) => !words?.text?.trim() && !words?.calls?.length;

/** What a text began with, once it holds `keys`, too: of each kind (a model's draft, an earlier answer) the last. */
export function beganWith(before = "", keys = "") {
  const all = `${before} ${keys}`.split(" ").filter(Boolean);
  return [...new Map(all.map((key) => [key.split(":")[0], key])).values()].join(" ");
}

/** One text goes on where the other stops. */
const goesOn = (longer, shorter) => longer.text.startsWith(shorter.text) && (!shorter.calls?.length || same({ calls: longer.calls }, { calls: shorter.calls }));

/**
 * What stands in the form at the start: the server's text, or one of this device. `others` holds what would be lost by
 * that choice. `entries` know when they were written, the version they grew from and what was sent of them.
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

/** Texts of one ask on this device, one for each page that wrote it. */
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

  /** What pages before this one left here. */
  all() {
    return this.#keys().filter((key) => key !== this.own).flatMap((key) => {
      try {
        return [{ at: 0, calls: [], text: "", ...JSON.parse(this.storage.getItem(key)) }];
      } catch {
        return []; // a broken entry says nothing
      }
    });
  }

  /** Keep mine; false where this device keeps nothing. */
  keep(entry) {
    try {
      this.storage.setItem(this.own, JSON.stringify(entry));
      return true;
    } catch {
      return false;
    }
  }

  /** Mine says nothing any more. */
  drop() {
    try {
      this.storage.removeItem(this.own);
    } catch {
      // this device keeps nothing
    }
  }

  /** Mine holds all that they held. */
  dropOthers() {
    for (const key of this.#keys()) if (key !== this.own) this.storage.removeItem(key);
  }

  clear() {
    for (const key of this.#keys()) this.storage.removeItem(key);
  }
}

/**
 * Saves while a person writes. `read()` gives the words now; `deliver(words, version, keepalive)` posts them and answers
 * as `post` does; `keep(words)` puts them on this device; `tell(state, detail)` hears saving, saved, here (on this device
 * only), closed (not even there), choose, refused and out.
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
  }

  /** A stroke: on this device at once, on the server when the hand rests. */
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

  /** Nothing is on its way, and the server has what stands here. */
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
    if (this.state !== "idle" || same(words, this.sent) || (!this.sent && isEmpty(words))) return;
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

  /** The page is going: send without waiting. What comes of it is read at the next load. */
  leave() {
    const words = this.read();
    if (this.state === "stopped" || this.state === "choosing" || same(words, this.sent) || (!this.sent && isEmpty(words))) return;
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
      [this.version, this.sent] = [other.version, other]; // our own words, whose receipt was lost
      this.#later(0);
    } else {
      this.state = "choosing";
      this.tell("choose", other);
    }
  }

  /** The person chose, with `version` as what the server has now. */
  chosen(version = this.version) {
    if (this.state === "choosing") this.state = "idle";
    [this.version, this.sent] = [version, null];
    this.keep(this.read());
    this.#later(0);
  }

  /** The line is back. */
  retry() {
    this.attempt = 0;
    if (this.state === "idle" && !same(this.read(), this.sent)) this.#later(0);
  }

  stop() {
    this.state = "stopped";
    this.timer.clear(this.waiting);
  }
}
