// A list of steps of any length with only the steps near the view on the page. Owns the children of one <ol data-steps>: a
// filler above, rows drawn by the server, a filler below.
//
// Rows come with the socket or are fetched by number: `steps.html?since=N&limit=M` returns at most 200. A page opens with the last
// 60 steps, or those around `?step=N`. At most 180 rows are on the page and 360 in memory; 80 are fetched ahead. Heights are
// measured and remembered, so the scrollbar has its true length, and the top row of the view stays in place when rows above it
// change. A page that follows draws every new step in order, at most 160 per animation frame; one that is 2,000 steps behind
// jumps to the end. A jump is drawn right away, everything else in one animation frame.

import { Heights, stretch, windowFor } from "./height-index.js";
import { AGAIN_MS, Kept, blankRow } from "./row-cache.js";
import { fetchFragment, noteStep } from "../shell/connection.js";
import { mergeParts } from "../shell/html-merge.js";
import { life } from "../shell/page-life.js";
import { View } from "./scroll-view.js";
import { coalesce, pauseBefore } from "../shell/stream.js";

const OVER_PX = 900; // on the page beyond the view, in the direction of scrolling
const BACK_PX = 450; // and in the other direction
const GROW_PX = 300; // after a jump the page grows by this in each frame
const ROWS = 180; // on the page at the same time
const ASK = 160; // per request, and per frame of a page that follows
const AHEAD = 80; // fetched before they are needed, in the direction of scrolling
const BEHIND = 2000; // a page that follows and is further behind jumps to the end
const NEAR_PX = 80;
const NEXT_TO = 8; // rows on each side of a distant step, fetched with it and before all others
const LOADS = 2; // requests in parallel: the reader's new position does not wait for the old one
const LATE_MS = 300; // a wheel may still turn after a key was pressed
const BESIDE_MS = 1000; // at most one refresh of the side panel in this time

const numbers = (text) => (text || "").split(" ").filter(Boolean).map(Number);

export class LongList {
  /**
   * @param {HTMLElement} list
   * @param {{onChange?: () => void, onNew?: (from: number, to: number) => void}} [hears]
   */
  constructor(list, { onChange = () => {}, onNew = () => {} } = {}) {
    this.list = list;
    this.onChange = onChange;
    this.onNew = onNew;
    this.over = life();
    /** @type {HTMLElement | null | undefined} the row that the line ends at */
    this.ends = undefined;
    this.view = new View(list.closest("[data-scroll]"));
    const [above, below] = list.querySelectorAll(":scope > li.fill");
    this.above = above;
    this.below = below;
    this.first = Number(list.dataset.first);
    this.last = Number(list.dataset.last);
    this.end = this.last;
    this.waits = new Set(numbers(list.dataset.waits));
    this.kept = new Kept();
    this.current = Number(list.dataset.at) || null;
    this.goal = null; // the step to bring into view
    this.following = false;
    this.hand = false; // the reader scrolled by hand after the last choice or jump
    this.painted = this.last;
    this.fresh = []; // HTML that arrived and waits for the next frame
    this.heading = 0;
    this.frame = 0;
    this.dirty = true;
    this.misses = 0;
    /** @type {[number, number][]} stretches that are being fetched */
    this.loads = [];
    this.heights = new Heights();
    this.heights.extend(this.count);
    this.hold = () => false; // whether the side panel waits; `catchUp` comes after it
    this.refresh = coalesce(async () => { if (!this.hold()) await this.#beside(); }, BESIDE_MS);
    /** @type {import("./row-cache.js").Row[]} the rows on the page */
    this.placed = [...list.querySelectorAll(":scope > li.step[data-seq]")];
    this.chosen = this.placed.find((row) => row.hasAttribute("aria-current"));
    for (const row of this.placed) this.#keep(row);
    const seqs = [...this.kept.rows.keys()];
    this.window = seqs.length ? [Math.min(...seqs), Math.max(...seqs)] : [this.first, this.first - 1];
    this.room = OVER_PX;
    this.width = this.list.clientWidth;
    this.age = 0; // rows that were measured at another age are measured again
    this.#listen();
    this.render();
  }

  get count() { return Math.max(0, this.end - this.first + 1); }

  /** Return the row of a step if it is on the page; it can be blank. */
  #placedAt(seq) {
    const row = this.placed[seq - Number(this.placed[0]?.dataset.seq)];
    return row && Number(row.dataset.seq) === seq ? row : null;
  }

  #listen() {
    for (const box of [this.view.pane, document]) box?.addEventListener("scroll", () => this.#scrolled(), { passive: true, signal: life() });
    const byHand = () => { [this.goal, this.hand] = [null, true]; };
    for (const kind of ["wheel", "touchmove", "pointerdown"]) {
      (this.view.pane || document).addEventListener(kind, byHand, { passive: true, signal: life() });
    }
    document.addEventListener("keydown", (event) => { if (["PageUp", "PageDown"].includes(event.key)) byHand(); }, { signal: life() });
    new ResizeObserver(() => this.#resized()).observe(this.list);
    this.list.addEventListener("toggle", (event) => {
      /** @type {import("./row-cache.js").Row} */
      const row = /** @type {Element} */ (event.target).closest("li[data-seq]");
      if (!row) return;
      this.kept.noteOpen(row);
      row.age = -1;
      this.draw();
    }, true);
  }

  /** Measure again: a new width changes all heights, and so does another script that changed the list. */
  #resized() {
    const { clientWidth: width, offsetHeight: tall } = this.list;
    if (width === this.width && Math.abs(tall - this.tall) < 1) return;
    this.view.measure();
    if (width && width !== this.width) this.heights.forget();
    this.width = width || this.width;
    this.age += 1;
    this.draw();
  }

  #scrolled() {
    const top = this.view.box.scrollTop;
    if (top === this.lastTop) return; // this script's own scrolling, in the frame before
    if (this.following && top < this.lastTop - 2 && !this.#endInView()) {
      if (this.hand || performance.now() - this.followed > LATE_MS) this.follow(false);
      else this.draw(); // the end of an earlier scroll
    }
    this.heading = Math.sign(top - this.lastTop) || this.heading;
    this.lastTop = top;
    this.#later();
    this.onChange();
  }

  /** Return how far rows are to reach beyond the view, above and below it. */
  #reach() {
    const [ahead, back] = [Math.min(OVER_PX, this.room), Math.min(BACK_PX, this.room)];
    return this.heading < 0 ? [ahead, back] : this.heading > 0 ? [back, ahead] : [ahead, ahead];
  }

  /** Return whether the rows on the page reach far enough beyond the view. */
  #covers() {
    const [top, height] = [this.view.top, this.view.height];
    const [a, b] = this.window;
    const [up, down] = this.#reach().map((distance) => (distance * 2) / 3);
    if (a > this.first && this.above.getBoundingClientRect().bottom > top - up) return false;
    return b >= this.end || this.below.getBoundingClientRect().top > top + height + down;
  }

  /** Return whether the end of the list is in view and no later step is known. */
  atEnd() { return this.end >= this.last && this.#endInView(); }

  /** Return whether the end of what is drawn is in view, also while new steps are on their way. */
  #endInView() { return this.list.getBoundingClientRect().bottom - this.view.top < this.view.height + NEAR_PX; }

  /** Follow the newest step, or stop following. */
  follow(on = true) {
    this.following = on;
    this.followed = performance.now();
    this.fresh = [];
    this.goal = null;
    this.hand = false;
    if (on) this.painted = Math.max(this.painted, this.end);
    else this.#reveal(this.last);
    this.draw();
  }

  /** Take a frame: the last number, and the HTML of some steps. Others are fetched. */
  hear(last, html) {
    if (html && this.following && !document.hidden) this.fresh.push(html);
    this.extend(last);
    if (this.fresh.length) this.draw();
  }

  /** Extend the list up to `last`. A page that follows shows the steps once it has them, others reserve their space. */
  extend(last) {
    if (!(last > this.last) || "fixed" in this.list.dataset) return;
    if (last === Number(this.list.dataset.top)) return; // an open question that is shown on top of the page
    const before = this.last;
    this.last = last;
    if (!this.following) this.#reveal(last);
    this.onNew(before + 1, last);
    this.draw();
  }

  #reveal(end) {
    this.end = Math.max(this.end, end);
    this.heights.extend(this.count);
    if (this.end <= 999 || this.list.classList.contains("long")) return;
    this.list.classList.add("long");
    this.age += 1;
  }

  /** Draw in the next frame. */
  draw() {
    this.dirty = true;
    this.#later();
  }

  #later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  render() {
    if (!this.list.clientWidth) return; // in a closed tab
    if (this.following) this.#advance();
    if (!this.dirty && this.#covers()) return;
    this.dirty = false;
    const anchor = this.goal || this.following ? null : this.#anchor();
    this.#grow(this.#wanted(anchor, [0, 0]));
    const window = (this.window = this.#wanted(anchor));
    this.#place(window);
    this.#measure();
    this.#settle(anchor);
    this.painted = Math.max(this.painted, Math.min(window[1], this.end));
    const [a, b] = this.#wanted(this.following || this.goal ? null : this.#anchor());
    if (this.room < GROW_PX) requestAnimationFrame(() => this.draw()); // the first frame of a jump is shown before more is drawn or fetched
    else if (a < window[0] || b > window[1] || this.room < OVER_PX || this.#goesOn()) this.draw(); // or rows were smaller than assumed
    this.tall = this.list.offsetHeight;
    this.#forgetFar();
    if (this.room >= GROW_PX) this.#load();
    noteStep(this.end);
    this.onChange();
  }

  /** Draw what is in view first after a jump and the rest frame by frame, so no frame takes long. */
  #grow([from, to]) {
    const stays = this.following || !this.count || (from <= this.window[1] && to >= this.window[0]);
    this.room = stays ? Math.min(OVER_PX, this.room + GROW_PX) : GROW_PX / 2;
  }

  /** Show new steps in order, every one of them, up to a window per frame. */
  #advance() {
    if (this.last - this.end > BEHIND) {
      this.fresh = [];
      this.#reveal(this.last - ASK);
      this.painted = this.end;
    }
    for (let taken = 0; this.fresh.length && taken < ASK;) taken += this.#unpack(this.fresh.shift());
    const most = Math.min(this.last, this.end + ASK);
    let to = this.end;
    while (to < most && this.kept.settled(to + 1)) to += 1;
    if (to > this.end) this.#reveal(to);
  }

  #goesOn() { return this.following && (this.fresh.length > 0 || (this.end < this.last && this.kept.settled(this.end + 1))); }

  #unpack(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const rows = /** @type {HTMLElement[]} */ ([...template.content.children]);
    for (const row of rows) {
      if (row.classList.contains("waits")) this.waits.add(Number(row.dataset.seq));
      this.#keep(row);
    }
    return rows.length;
  }

  /**
   * @param {{seq: number, at: number} | null} anchor
   * @returns {[number, number]}
   */
  #wanted(anchor, [up, down] = this.#reach()) {
    const height = this.view.height;
    let top = this.view.top - this.above.getBoundingClientRect().top;
    if (this.following) top = this.heights.total - height;
    else if (this.goal) top = this.heights.top(this.goal.seq - this.first) - height / 2;
    else if (anchor) top = this.heights.top(anchor.seq - this.first) - anchor.at; // also correct after heights were measured again
    const [a, b] = windowFor(this.heights, top - up, top + height + down, 0, ROWS);
    /** @type {[number, number]} */
    const wanted = [a + this.first, b + this.first];
    if (this.following && this.painted < this.end) wanted[0] = Math.max(Math.min(wanted[0], this.painted + 1), this.end - ASK);
    return wanted;
  }

  /** Return the first row in view and its position. */
  #anchor() {
    const edge = this.view.top;
    for (const row of this.placed) {
      const box = row.getBoundingClientRect();
      if (box.bottom > edge) return { seq: Number(row.dataset.seq), at: box.top - edge };
    }
    return null;
  }

  #place([from, to]) {
    const wanted = [];
    for (let seq = from; seq <= to; seq += 1) wanted.push(this.kept.get(seq) || this.#blank(seq));
    const stay = new Set(wanted);
    for (const row of this.placed) if (!stay.has(row)) row.remove();
    this.placed = wanted;
    let [next, run] = [this.above.nextSibling, []];
    for (const row of wanted) {
      if (row !== next) {
        run.push(row);
        continue;
      }
      if (run.length) next.before(...run);
      [next, run] = [next.nextSibling, []];
    }
    if (run.length) next.before(...run);
    const set = (fill, height) => { fill.style.height = `${Math.max(0, height)}px`; };
    set(this.above, this.heights.top(from - this.first));
    set(this.below, this.heights.total - this.heights.top(to - this.first + 1));
    this.#choose();
  }

  #blank(seq) {
    const height = this.heights.top(seq - this.first + 1) - this.heights.top(seq - this.first);
    return blankRow(this.#placedAt(seq), seq, height, seq === this.current);
  }

  #measure() {
    for (const row of this.placed) {
      if (row.age === this.age || row.classList.contains("blank")) continue;
      row.age = this.age;
      this.heights.set(Number(row.dataset.seq) - this.first, row.getBoundingClientRect().height);
    }
    if (!this.learned && this.heights.known >= 10) {
      this.learned = true;
      this.heights.learn();
      this.draw();
    }
  }

  #settle(anchor) {
    if (this.following) this.toEnd();
    else if (this.goal) this.#toGoal();
    else if (anchor) {
      const row = this.#placedAt(anchor.seq);
      const moved = row ? row.getBoundingClientRect().top - this.view.top - anchor.at : 0;
      if (Math.abs(moved) >= 1) this.view.by(moved);
    }
    this.lastTop = this.view.box.scrollTop;
  }

  toEnd() {
    if (!this.view.stacked) this.view.pane.scrollTop = this.view.pane.scrollHeight;
    else if (this.list.getBoundingClientRect().bottom > innerHeight) this.list.scrollIntoView({ block: "end" });
  }

  #toGoal() {
    const { seq, block } = this.goal;
    const row = this.#placedAt(seq);
    if (!row) return;
    const [box, top, height] = [row.getBoundingClientRect(), this.view.top + 8, this.view.height - 16];
    const foot = this.view.stacked ? 60 : 0;
    if (block === "center") this.view.by(box.top - top - Math.max(0, (height - box.height) / 2));
    else if (box.top < top + (this.view.stacked ? 50 : 0)) this.view.by(box.top - top - (this.view.stacked ? 50 : 0));
    else if (box.bottom > top + height - foot) this.view.by(Math.min(box.bottom - top - height + foot, box.top - top));
    if (this.kept.get(seq) && this.#holes() === null) this.goal = null;
  }

  /** Bring a step into view; fetch it if needed. */
  goTo(seq, block = "nearest") {
    if (!this.count) return;
    if (this.following) this.follow(false);
    const to = Math.min(this.last, Math.max(this.first, seq));
    [this.goal, this.dirty] = [{ seq: to, block }, true];
    this.render(); // now, so the next frame has only to paint it
    if (!this.kept.has(to)) this.#load();
  }

  /** Mark one step as current. */
  choose(seq, block = "nearest") {
    this.hand = false;
    this.current = seq === null ? null : Math.min(this.last, Math.max(this.first, seq));
    if (seq !== null && block) this.goTo(this.current, block);
    else this.draw();
    return this.current;
  }

  #choose() {
    const goesOn = this.list.querySelector(":scope > .step:not([data-seq])");
    const [ends, chosen] = [goesOn ? null : this.#placedAt(this.end), this.#placedAt(this.current)];
    if (this.ends !== ends) {
      this.ends?.classList.remove("ends");
      ends?.classList.add("ends");
    }
    if (this.chosen !== chosen) {
      this.chosen?.removeAttribute("aria-current");
      chosen?.setAttribute("aria-current", "step");
    }
    [this.ends, this.chosen] = [ends, chosen];
  }

  /** Move the current step; without one, start at the first in view. */
  move(step) {
    if (this.current !== null) {
      let seq = this.current + step;
      while (this.#placedAt(seq)?.hidden) seq += step; // a step without a row
      return this.choose(seq);
    }
    const anchor = this.#anchor();
    return this.choose(step > 0 ? anchor?.seq ?? this.first : this.end);
  }

  openAll() { this.kept.openAll(this.placed); }

  /** Return the next stretch to fetch, if any: steps after the end, then holes on the page, then steps ahead. */
  #missing() {
    if (!this.following || this.end >= this.last) return this.#holes() || (this.goal || this.following ? null : this.#ahead());
    const from = this.end + 1;
    if (this.#goesOn()) return null; // in the next frame
    let to = from;
    while (to < Math.min(this.last, from + ASK - 1) && !this.kept.settled(to + 1)) to += 1;
    return [from, to];
  }

  /** Return the holes on the page, including those after it has grown. */
  #holes() {
    const rows = Math.ceil((OVER_PX - this.room) / this.heights.usual);
    const [a, b] = [Math.max(this.first, this.window[0] - rows), Math.min(this.end, this.window[1] + rows)];
    return stretch(a, b, (seq) => this.kept.has(seq), ASK);
  }

  #ahead() {
    const [a, b] = this.window;
    const [from, to] = this.heading > 0 ? [b + 1, Math.min(this.end, b + AHEAD)] : [Math.max(this.first, a - AHEAD), a - 1];
    const found = this.heading && stretch(from, to, (seq) => this.kept.has(seq), AHEAD);
    return found && found[1] - found[0] + 1 >= Math.min(AHEAD / 2, to - from + 1) ? found : null;
  }

  async #load() {
    const goal = this.goal?.seq;
    let want = /** @type {[number, number] | null} */ (this.#missing());
    if (goal && !this.kept.has(goal)) want = [Math.max(this.first, goal - NEXT_TO), Math.min(this.end, goal + NEXT_TO)];
    if (!want || this.loads.length >= LOADS || this.loads.some(([from, to]) => want[0] <= to && want[1] >= from)) return;
    this.loads.push(want);
    try {
      this.take(await fetchFragment(`${this.list.dataset.url}?since=${want[0] - 1}&limit=${want[1] - want[0] + 1}&parts=0`));
      for (let seq = want[0]; seq <= want[1]; seq += 1) if (!this.kept.get(seq)) this.#miss(seq);
      this.misses = 0;
    } catch {
      const pause = pauseBefore(this.misses++); // the banner reports the connection, and its return retries
      for (let seq = want[0]; seq <= Math.min(want[1], this.end); seq += 1) this.kept.miss(seq, pause);
      setTimeout(() => this.draw(), pause);
      if (this.following) await new Promise((done) => { this.wake = done; setTimeout(done, pause); });
    }
    this.loads.splice(this.loads.indexOf(want), 1);
    this.draw();
  }

  /** Fetch single steps that the reader can jump to; after a failure the jump fetches them. */
  async bring(seqs) {
    const wanted = seqs.filter((seq) => !this.kept.has(seq));
    const fresh = wanted.length && await fetchFragment(`${this.list.dataset.url}?since=${this.last}&limit=0&parts=0&again=${wanted}`).catch(() => null);
    if (fresh) this.take(fresh);
  }

  #miss(seq) {
    this.kept.miss(seq);
    setTimeout(() => this.draw(), AGAIN_MS);
  }

  #keep(row) { if (Number(row.dataset.seq) >= this.first) this.kept.keep(row); }

  /** Take rows and the server's state of the rest: the last number, and which asks wait. */
  take(fresh) {
    const list = fresh.querySelector("ol[data-last]");
    for (const row of list.querySelectorAll("li.step[data-seq]")) this.#keep(document.adoptNode(row));
    const waits = new Set(numbers(list.dataset.waits));
    for (const seq of this.waits) if (!waits.has(seq) && !list.querySelector(`li[data-seq="${seq}"]`)) this.kept.outdate(seq);
    this.waits = waits;
    this.extend(Number(list.dataset.last));
    this.draw();
  }

  #forgetFar() {
    this.kept.forget(this.window[0] - ROWS / 2, Math.max(this.window[1], this.following ? this.last : 0) + ROWS / 2);
  }

  async #beside() {
    const fresh = await fetchFragment(`${this.list.dataset.url}?since=${this.last}&limit=0&again=${[...this.waits]}`);
    if (this.over.aborted) return; // other content is on the page
    this.take(fresh);
    mergeParts(fresh, this.list.closest("main"));
    this.onChange();
  }

  /** Fetch the last number and changed asks after a gap, a lost connection or a sleep. Return how many steps are new, null if unknown. */
  async catchUp() {
    const before = this.last;
    this.kept.hope();
    this.misses = 0;
    this.wake?.();
    const lost = await this.#beside().catch(() => true); // the next return or the slow timer retries
    return lost ? null : this.last - before;
  }
}
