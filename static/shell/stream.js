// A socket: frames in, reconnecting with back-off, and catching up from the last number. Owns no element of the page.
//
// A frame is a hint; lost frames are fetched again by number. A lost socket reconnects after 0.5 s, doubled up to 10 s, minus up to
// a fifth at random. A network or a tab that is back skips the wait. A socket that was silent for a while counts as lost if a
// request fails. The server sends a beat: a socket that missed two, as after sleep, is replaced. The page has these times in
// `data-silent` and `data-deaf`, in seconds.

const FIRST_MS = 500;
const LONGEST_MS = 10_000;
const REFUSED = new Set([4401, 4403, 4404]); // as 401, 403 and 404 of the API

/**
 * @typedef {{heardAt?: number, away: number, attempt?: number, code?: number}} Info
 * @typedef {{set: (job: () => void, ms: number) => any, clear: (id: any) => void, now: () => number}} Timer
 */

/** Return the pause before attempt n (from 0). A random part spreads many browsers over time. */
export function pauseBefore(attempt, chance = Math.random()) {
  const base = Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
  return Math.round(base * (0.8 + 0.2 * chance));
}

/**
 * Return a path with `since` in its query.
 * @param {string} path
 * @param {number | null} [since]
 */
export function withSince(path, since) {
  if (since === undefined || since === null) return path;
  return `${path}${path.includes("?") ? "&" : "?"}since=${since}`;
}

const withBeat = (path) => `${path}${path.includes("?") ? "&" : "?"}beat=1`;

/**
 * A stream of frames. `since()` returns the last number seen; `onFrame(frame)` receives every frame; `onState(state, info)` receives
 * "connecting", "live", "lost", and finally "refused"; `onGap()` is called when frames may be missing.
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
   * @param {{silent?: string, deaf?: string}} [options.times]
   */
  constructor({ path, since = () => undefined, onFrame, onState = () => {}, onGap = () => {}, socket, timer, times = document.body.dataset }) {
    this.path = path;
    this.since = since;
    this.onFrame = onFrame;
    this.onState = onState;
    this.onGap = onGap;
    this.open = socket || ((url) => new WebSocket(new URL(url, location.href.replace(/^http/, "ws"))));
    this.timer = timer || { set: (f, ms) => setTimeout(f, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };
    this.silentMs = 1000 * Number(times.silent);
    this.deafMs = 1000 * Number(times.deaf);
    this.attempt = 0;
    this.lostAt = null;
    this.stopped = false;
    this.live = false;
    this.waiting = null;
    this.socket = null;
    this.heardAt = this.timer.now();
  }

  start() {
    if (this.stopped) return this;
    this.onState(this.lostAt === null ? "connecting" : "lost", this.info());
    const socket = this.open(withSince(withBeat(this.path), this.since()));
    this.socket = socket;
    socket.onopen = () => this.#opened();
    socket.onmessage = (message) => this.#heard(message.data);
    socket.onclose = (event) => this.#closed(socket, event?.code);
    socket.onerror = () => {}; // a close always follows and is handled
    return this;
  }

  #opened() {
    const away = this.lostAt === null ? 0 : this.timer.now() - this.lostAt;
    this.attempt = 0;
    this.lostAt = null;
    this.live = true;
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
      return this.onGap(); // a truncated frame is a missing frame
    }
    if (frame.type === "gap") this.onGap();
    else if (frame.type !== "beat") this.onFrame(frame);
  }

  #closed(socket, code) {
    if (this.stopped || socket !== this.socket) return;
    this.lostAt ??= this.timer.now();
    this.live = false;
    if (REFUSED.has(code)) {
      this.stopped = true; // not a network error: the server would refuse again
      return this.onState("refused", { ...this.info(), code });
    }
    this.onState("lost", this.info());
    this.waiting = this.timer.set(() => this.start(), pauseBefore(this.attempt++));
  }

  info() {
    return { heardAt: this.heardAt, away: this.lostAt === null ? 0 : this.timer.now() - this.lostAt, attempt: this.attempt };
  }

  /** Reconnect without a pause because the tab or the network is back, and replace a socket that the network has dropped. */
  check() {
    if (this.lostAt !== null) return this.tryNow();
    const state = this.socket?.readyState;
    if (state === 2 || state === 3) this.#closed(this.socket); // closing or closed without an event
    else this.mind();
  }

  /** Replace a socket that says it is open and has missed two beats. */
  mind() {
    if (!this.live || this.timer.now() - this.heardAt < this.deafMs) return;
    this.#drop();
    this.tryNow();
  }

  /** Treat a silent socket as lost because a request failed. */
  doubt() {
    if (this.lostAt === null && !this.stopped && this.timer.now() - this.heardAt >= this.silentMs) this.#drop();
  }

  #drop() {
    const ghost = this.socket;
    this.lostAt = this.heardAt; // nothing was heard since
    this.#closed(ghost);
    this.socket = null;
    ghost.onopen = ghost.onmessage = null;
    ghost.close();
  }

  /** Reconnect without a pause because a person asked for it. */
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
 * Return a function that runs `job` but never twice in parallel: calls during a run cause one more run after it. The second run
 * follows directly, because the first may have read too early; each later one waits `pauseMs`.
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
