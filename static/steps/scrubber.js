// The replay: one current step, moved by keys, the scrubber, the slider of a long episode, and Play. Its number is in the address.
//
// Play runs at 0.5 to 10 times the pace of one step per 0.9 s. A jump draws the step and its neighbors at the key press, before
// the next frame; the scrubber and the rest of the page follow in later frames, and only then are more steps fetched. The step
// strip and the list of labels are enough to find the next ask, error, write or label, so no step is fetched for that. A step
// that is not here says that it is loading; it is fetched before all others with eight steps on each side.

import { grouped } from "../shell/numbers.js";
import { bind, print } from "../shell/keys.js";
import { LongList } from "./longlist.js";
import { jumpsFrom, lookAhead, lookNoMore } from "./look-ahead.js";
import { afterFrames, life, whenOver } from "../shell/page-life.js";
import { startMarks } from "./place-marks.js";
import { startPictures } from "./pictures.js";
import { MARKS, startFind } from "./steps.js";
import { pictures } from "./strip.js";
import { startTables } from "./tables-at.js";

const PLAY_MS = 900;
const KINDS = { ask: "olafdc", error: "e", write: "w" };
const TICKS = 61;

/**
 * Return the next step after `at` in direction `step` whose letter is in `marks`; `at` if there is none.
 * @param {string} letters
 * @param {number} at
 * @param {number} step
 * @param {string} [marks]
 */
export function nextMark(letters, at, step, marks = MARKS) {
  for (let n = at + step; n >= 0 && n < letters.length; n += step) if (marks.includes(letters[n])) return n;
  return at;
}

/**
 * Return the next step after `at` in direction `step` that people labeled or commented on; `at` if there is none.
 * @param {Iterable<number>} said
 * @param {number} at
 * @param {number} step
 */
export function nextSaid(said, at, step) {
  const beyond = [...said].filter((seq) => (seq - at) * step > 0);
  return beyond.length ? at + step * Math.min(...beyond.map((seq) => Math.abs(seq - at))) : at;
}

/**
 * Return `url` with `?step=` set to `seq`.
 * @param {string} url
 * @param {number} seq
 */
export function withStep(url, seq) {
  const out = new URL(url);
  out.searchParams.set("step", String(seq));
  return out.pathname + out.search;
}

/**
 * Return the first number of the scrubber's ticks around `at`.
 * @param {number} at
 * @param {number} count
 * @param {number} [ticks]
 */
export function firstTick(at, count, ticks = TICKS) {
  return 1 + Math.max(0, Math.min(at - 1 - Math.floor(ticks / 2), count - ticks));
}

let list = null;
let playing = null;
let address = 0;
let drawn = true; // whether the scrubber is drawn for the current step

function tickOf(seq, code) {
  const [symbol, css, word] = pictures().marks[code] || pictures().marks.t;
  const link = document.createElement("a");
  link.href = `?step=${seq}`;
  link.dataset.seq = String(seq);
  link.classList.toggle("five", seq % 5 === 0);
  link.setAttribute("aria-label", `Step ${seq}, ${word}`);
  link.innerHTML = `<svg class="g ${css}" aria-hidden="true"><use href="#${symbol}"/></svg><span>${Number(seq)}</span>`;
  return link;
}

/** Return the steps that people labeled or commented on, as far as this page shows it. */
function saidOf() {
  const parts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-seqs]"));
  return new Set([...parts].flatMap((part) => part.dataset.seqs.split(" ").map(Number).filter(Boolean)));
}

/** Draw the ticks around a step; those that are there stay, with their names. */
function drawTicks(seq) {
  const said = saidOf();
  const scrub = document.querySelector(".scrub");
  const { codes } = list.list.dataset;
  const first = firstTick(seq, list.last);
  const ticks = /** @type {HTMLCollectionOf<HTMLElement>} */ (scrub.children);
  const have = Number(ticks[0]?.dataset.seq || 0);
  const inside = seq >= have + 5 && seq <= have + TICKS - 6;
  if (first !== have && !inside) {
    const last = Math.min(list.last, first + TICKS - 1);
    scrub.replaceChildren(...Array.from({ length: last - first + 1 }, (_, n) => tickOf(first + n, codes[first + n - 1])));
  }
  for (const tick of ticks) {
    const own = Number(tick.dataset.seq);
    tick.classList.toggle("past", own < seq);
    tick.classList.toggle("lab", said.has(own));
    if (said.has(own)) tick.title = "labels or comments";
    else tick.removeAttribute("title");
    if (own === seq) {
      tick.setAttribute("aria-current", "true");
      tick.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else tick.removeAttribute("aria-current");
  }
}

function drawSoon() {
  drawn = true;
  drawTicks(here());
}

/**
 * Receives the number of the current step; the review page shows its forms for it.
 * @type {((at: number) => void) | null}
 */
let heard = null;
let follow = null;

/**
 * Bring a step into view.
 * @param {number} seq
 * @param {string} [block]
 */
export function show(seq, block = "center") {
  if (!list.count) return;
  const at = list.choose(seq, block);
  heard?.(at);
  follow?.();
  clearTimeout(address);
  address = setTimeout(() => history.replaceState(null, "", withStep(location.href, at)), 60); // browsers limit how often
  if (drawn) afterFrames(2, drawSoon); // they take as long to draw as the step, which is shown first
  drawn = false;
  lookAhead(list, () => jumpsFrom(list.list.dataset.codes || "", at, [MARKS, ...Object.values(KINDS)], saidOf()));
  const where = document.querySelector("[data-where]");
  if (where) where.textContent = `step ${grouped(at)} of ${grouped(list.last)}`;
  const slider = document.querySelector("input[data-slider]");
  if (slider) slider.value = String(at);
  const fork = /** @type {HTMLAnchorElement | null} */ (document.querySelector('a[data-act="fork"]'));
  if (fork) fork.href = withStep(fork.href, at);
}

const here = () => list.current || 1;

/** Return the milliseconds per step at the chosen speed. */
function pace() {
  const speed = /** @type {HTMLSelectElement | null} */ (document.querySelector("select[data-speed]"));
  return PLAY_MS / Number(speed?.value || 1);
}

function play() {
  const button = document.querySelector('[data-play]');
  if (playing) {
    clearInterval(playing);
    playing = null;
  } else {
    if (here() >= list.last) show(1);
    playing = setInterval(() => (here() >= list.last ? play() : show(here() + 1)), pace());
  }
  if (button) button.firstChild.textContent = playing ? "Stop " : "Play ";
}

/**
 * Start the scrubber; `onStep` receives every step that comes into view.
 * @param {(at: number) => void} [onStep]
 */
export function start(onStep) {
  if (onStep) heard = onStep;
  list = new LongList(document.querySelector("ol[data-steps]"));
  const mark = (step, marks) => nextMark(list.list.dataset.codes || "", here() - 1, step, marks) + 1;
  startPictures();
  bind("step-up", () => show(here() - 1));
  bind("step-down", () => show(here() + 1));
  bind("mark-up", () => show(mark(-1)));
  bind("mark-down", () => show(mark(1)));
  bind("back-ask", () => show(mark(-1, KINDS.ask)));
  bind("forth-ask", () => show(mark(1, KINDS.ask)));
  bind("back-error", () => show(mark(-1, KINDS.error)));
  bind("forth-error", () => show(mark(1, KINDS.error)));
  bind("back-write", () => show(mark(-1, KINDS.write)));
  bind("forth-write", () => show(mark(1, KINDS.write)));
  bind("back-said", () => show(nextSaid(saidOf(), here(), -1)));
  bind("forth-said", () => show(nextSaid(saidOf(), here(), 1)));
  document.querySelector("[data-speed]")?.addEventListener("change", () => {
    if (!playing) return;
    play();
    play();
  });
  bind("first", () => show(1));
  bind("last", () => show(list.last));
  bind("play", play);
  bind("open-all", () => list.openAll());
  if (document.querySelector("[data-search]")) startFind({ list: list.list, choose: show });
  for (const button of document.querySelectorAll("[data-play]")) button.addEventListener("click", play);
  const slider = document.querySelector("input[data-slider]");
  slider?.addEventListener("input", () => show(Number(slider.value)));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest(".scrub a, a.seq");
    if (!link) return;
    event.preventDefault();
    show(Number(link.dataset.seq || link.closest("[data-seq]").dataset.seq), link.matches(".scrub a") ? "center" : "nearest");
  }, { signal: life() });
  follow = startTables(here);
  startMarks(list.list, show);
  document.addEventListener("awm:step", (event) => show(/** @type {CustomEvent} */ (event).detail), { signal: life() });
  for (const came of ["htmx:afterSettle", "awm:said"]) { // labels were added
    document.addEventListener(came, () => list.count && drawTicks(here()), { signal: life() });
  }
  whenOver(() => {
    clearTimeout(address);
    drawn = true;
    lookNoMore();
    if (playing) play();
  });
  // a review on a phone begins with the verdict, so its first step is not scrolled to
  show(here(), here() === 1 && document.body.dataset.page === "review" ? "" : "center");
  print();
}

if (typeof document !== "undefined" && document.body?.dataset.page === "replay") start();
