// The socket: frames in, reconnect with back-off, a state that the page shows, and catch-up from the last number seen.
// Owns no element of the page. A socket only tells; what is lost is fetched again by number.

const FIRST_MS = 500;
const LONGEST_MS = 10_000;
const SILENT_MS = 5000; // a socket that spoke within this time is no ghost
const REFUSED = new Set([4401, 4403, 4404]); // as the API's 401, 403 and 404

/**
 * @typedef {{heardAt?: number, away: number, attempt?: number, code?: number}} Info
 * @typedef {{set: (job: () => void, ms: number) => any, clear: (id: any) => void, now: () => number}} Timer
 */

/** Pause before attempt n (from 0): doubles to ten seconds, with up to a fifth of chance so that a hall of browsers spreads. */
export function pauseBefore(attempt, chance = Math.random()) {
  const base = Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
  return Math.round(base * (0.8 + 0.2 * chance));
}

/**
 * Put `since` into a path.
 * @param {string} path
 * @param {number | null} [since]
 */
export function withSince(path, since) {
  if (since === undefined || since === null) return path;
  return `${path}${path.includes("?") ? "&" : "?"}since=${since}`;
}

/**
 * A stream of frames. `since()` gives the last number seen; `onFrame(frame)` gets every frame; `onState(state, info)` hears
 * "connecting", "live", "lost", and "refused" as the last word; `onGap()` is called when frames may be missing.
 */
export class Stream {
  /**
   * @param {object} options
   * @param {string} options.path
   * @param {() => number | undefined} [options.since]
   * @param {(frame: Frame) => void} options.onFrame
   * @param {(state: string, info: Info) => void} [options.onState]
   * @param {() => void} [options.onGap]
   * @param {(url: string) => WebSocket} [options.socket]
   * @param {Timer} [options.timer]
   */
  constructor({ path, since = () => undefined, onFrame, onState = () => {}, onGap = () => {}, socket, timer }) {
    this.path = path;
    this.since = since;
    this.onFrame = onFrame;
    this.onState = onState;
    this.onGap = onGap;
    this.open = socket || ((url) => new WebSocket(new URL(url, location.href.replace(/^http/, "ws"))));
    this.timer = timer || { set: (f, ms) => setTimeout(f, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };
    this.attempt = 0;
    this.lostAt = null;
    this.stopped = false;
    this.waiting = null;
    this.socket = null;
    this.heardAt = this.timer.now();
  }

  start() {
    if (this.stopped) return this;
    this.onState(this.lostAt === null ? "connecting" : "lost", this.info());
    const socket = this.open(withSince(this.path, this.since()));
    this.socket = socket;
    socket.onopen = () => this.#opened();
    socket.onmessage = (message) => this.#heard(message.data);
    socket.onclose = (event) => this.#closed(socket, event?.code);
    socket.onerror = () => {}; // a close always follows and is what we act on
    return this;
  }

  #opened() {
    const away = this.lostAt === null ? 0 : this.timer.now() - this.lostAt;
    this.attempt = 0;
    this.lostAt = null;
    this.heardAt = this.timer.now();
    this.onState("live", { away });
    if (away) this.onGap();
  }

  #heard(text) {
    let frame;
    this.heardAt = this.timer.now();
    try {
      frame = JSON.parse(text);
    } catch {
      return this.onGap(); // half a frame is a missing frame
    }
    if (frame.type === "gap") this.onGap();
    else this.onFrame(frame);
  }

  #closed(socket, code) {
    if (this.stopped || socket !== this.socket) return;
    this.lostAt ??= this.timer.now();
    if (REFUSED.has(code)) {
      this.stopped = true; // no trouble of the network: the same answer would come again
      return this.onState("refused", { ...this.info(), code });
    }
    this.onState("lost", this.info());
    this.waiting = this.timer.set(() => this.start(), pauseBefore(this.attempt++));
  }

  info() {
    return { heardAt: this.heardAt, away: this.lostAt === null ? 0 : this.timer.now() - this.lostAt, attempt: this.attempt };
  }

  /** The tab or the line is back: do not wait for the next attempt, and leave a socket that the network forgot. */
  check() {
    if (this.lostAt !== null) return this.tryNow();
    const state = this.socket?.readyState;
    if (state === 2 || state === 3) this.#closed(this.socket); // closing or closed while nobody told
  }

  /** Nothing answers elsewhere: a socket that is silent, too, is taken for lost, though nobody told. */
  doubt() {
    if (this.lostAt !== null || this.stopped || this.timer.now() - this.heardAt < SILENT_MS) return;
    const ghost = this.socket;
    this.#closed(ghost);
    this.socket = null;
    ghost.onopen = ghost.onmessage = null;
    ghost.close();
  }

  /** The person does not want to wait for the next attempt. */
  tryNow() {
    if (this.lostAt === null) return;
    this.timer.clear(this.waiting);
    this.attempt = 0;
    const before = this.socket; // an attempt that may still hang
    if (before) before.onopen = before.onmessage = null;
    before?.close?.();
    this.start();
  }

  stop() {
    this.stopped = true;
    this.timer.clear(this.waiting);
    this.socket?.close();
  }
}

/**
 * A fetch that never runs twice at once: calls during a run ask for one more run after it. That one follows at once, as
 * the first may have read too early; from then on each waits for `pauseMs`, so that a flood is drawn a few times a second.
 * @param {() => unknown} job
 * @param {number} [pauseMs]
 */
export function coalesce(job, pauseMs = 0) {
  let running = false;
  let again = false;
  return async function poke() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      for (let runs = 1; ; runs += 1) {
        again = false;
        await job();
        if (again && pauseMs && runs > 1) await new Promise((done) => setTimeout(done, pauseMs));
        if (!again) break;
      }
    } finally {
      running = false;
    }
  };
}
