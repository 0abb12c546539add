// Marks in the list of steps: parts that people labeled or commented on. The marks are custom highlights, which add no element
// to the text. Without them the list of labels still names each place and links to it. A stored step is fetched once it has
// a marked or selected part; the last 12 are kept.

import { inProject } from "../shell/address.js";
import { life } from "../shell/page-life.js";
import { cellOf, nodeAt, parse, stretchesOf, unitsOf } from "./places.js";

const KEPT = 12; // stored steps
const SOON_MS = 80;
const WAIT_MS = 4000; // for the row of a step to be on the page
export const BOXES = "[data-path]:not(table), table[data-path] td";

/** @typedef {import("./places.js").Place} Place */
/** @typedef {{units: import("./places.js").Unit[], node: import("./places.js").Node}} Read what a box of the page shows */

/** @type {Map<string, Promise<import("./places.js").Node | null>>} by address: another episode's review can be swapped in */
const stored = new Map();

/**
 * Return a stored step in full as nodes; null if the server refuses.
 * @param {number} seq
 */
export function storedStep(seq) {
  const path = inProject(`api/v1/episodes/${document.getElementById("main").dataset.episode}/steps/${seq}`);
  if (!stored.has(path)) {
    const read = async () => {
      const answer = await fetch(path, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      return parse(await answer.text());
    };
    stored.set(path, read().catch(() => (stored.delete(path), null)));
    if (stored.size > KEPT) stored.delete(stored.keys().next().value);
  }
  return stored.get(path);
}

/** @param {number} seq */
export const rowOf = (seq) => document.querySelector(`ol[data-steps] > li.step[data-seq="${Number(seq)}"]:not(.blank)`);

/**
 * Return the boxes of a row that show values of its step.
 * @param {Element} row
 * @returns {HTMLElement[]}
 */
export const boxesOf = (row) => [...row.querySelectorAll(BOXES)].map((box) => /** @type {HTMLElement} */ (box));

/** Yield the text nodes of a box in order. @param {Element} box */
function* pieces(box) {
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node instanceof Text) yield { node, text: node.data };
    else if (node.nodeName === "BR") yield { node, text: "\n" };
  }
}

/** @param {Element} box */
const shownIn = (box) => Array.from(pieces(box), ({ text }) => text).join("");

/** @type {WeakMap<Element, {root: object, read: Read | null}>} */
const reads = new WeakMap();

/**
 * Return what a box shows, letter by letter; null if that can't be told.
 * @param {HTMLElement} box
 * @param {import("./places.js").Node} root
 * @returns {Read | null}
 */
export function readIn(box, root) {
  if (reads.get(box)?.root !== root) reads.set(box, { root, read: read(box, root) });
  return reads.get(box).read;
}

function read(box, root) {
  const table = box.closest("table[data-path]");
  const whole = nodeAt(root, (table || box).dataset.path);
  const node = whole && table ? cellOf(whole, box.parentElement.sectionRowIndex, box.cellIndex) : whole;
  const units = node && unitsOf(shownIn(box), node, { part: box.dataset.part, cut: "cut" in box.closest("li.step").dataset });
  return units ? { units, node } : null;
}

/**
 * Return letters of a box as a range of the page.
 * @param {Element} box
 * @param {number} from
 * @param {number} to
 */
export function rangeOf(box, from, to) {
  const range = new Range();
  let at = 0;
  for (const { node, text } of pieces(box)) {
    const end = at + text.length;
    const isText = node instanceof Text;
    if (from >= at && from < end && isText) range.setStart(node, from - at);
    else if (from >= at && from < end) range.setStartBefore(node);
    if (to > at && to <= end && isText) range.setEnd(node, to - at);
    else if (to > at && to <= end) range.setEndAfter(node);
    at = end;
  }
  return range;
}

/**
 * Return the letters of a box that a range of the page covers.
 * @param {Element} box
 * @param {Range} range
 * @returns {[number, number]}
 */
export function lettersIn(box, range) {
  const before = (node, offset) => {
    let at = 0;
    for (const piece of pieces(box)) {
      if (piece.node === node) return at + offset;
      const place = new Range();
      place.setStart(node, offset);
      if (place.comparePoint(piece.node, 0) >= 0) return at;
      at += piece.text.length;
    }
    return at;
  };
  return [before(range.startContainer, range.startOffset), before(range.endContainer, range.endOffset)];
}

/**
 * Return the ranges of the page that show a place of a step.
 * @param {Element} row
 * @param {import("./places.js").Node} root
 * @param {Place} place
 */
export function rangesIn(row, root, place) {
  return boxesOf(row).flatMap((box) => {
    const found = readIn(box, root);
    return found ? stretchesOf(found.units, place).map(([from, to]) => rangeOf(box, from, to)) : [];
  });
}

/** Mark these ranges under a name of the style sheet. @param {string} name @param {Range[]} ranges */
export function mark(name, ranges) {
  if (typeof Highlight === "function") CSS.highlights.set(name, new Highlight(...ranges));
}

/** @param {Range} range */
export function reveal(range) {
  const start = range.startContainer;
  for (let box = start instanceof Element ? start : start.parentElement; box; box = box.parentElement) {
    if (box instanceof HTMLDetailsElement) box.open = true;
    if (box.scrollHeight <= box.clientHeight + 1 || getComputedStyle(box).overflowY === "visible") continue;
    const [own, edge] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
    if (own.top < edge.top || own.bottom > edge.bottom) box.scrollTop += own.top - edge.top - box.clientHeight / 3;
  }
}

const links = () => [...document.querySelectorAll("a[data-place]")].map((link) => /** @type {HTMLElement} */ (link));

/** @param {HTMLElement} link @returns {Place} */
function placeIn({ dataset: { path, start, end } }) {
  return start ? { path, start: Number(start), end: Number(end) } : { path };
}

let drawing = 0;

/** Mark what people said about the steps on the page. */
async function draw() {
  const mine = (drawing += 1);
  const ranges = [];
  for (const link of links()) {
    const [seq, place] = [Number(link.dataset.place), placeIn(link)];
    const root = rowOf(seq) && (await storedStep(seq));
    const row = rowOf(seq);
    if (root && row) ranges.push(...rangesIn(row, root, place));
  }
  if (mine === drawing) mark("said", ranges);
}

/** Return the row of a step once it is on the page. @param {number} seq */
async function rowSoon(seq) {
  const end = performance.now() + WAIT_MS;
  while (!rowOf(seq) && performance.now() < end) await new Promise(requestAnimationFrame);
  return rowOf(seq);
}

/** Show the place that a line of the list names. @param {HTMLElement} link @param {(seq: number, block: string) => void} view */
async function follow(link, view) {
  const seq = Number(link.dataset.place);
  view(seq, "nearest");
  const [row, root] = [await rowSoon(seq), await storedStep(seq)];
  const ranges = row && root ? rangesIn(row, root, placeIn(link)) : [];
  mark("found", ranges);
  if (!ranges.length) return;
  const shown = ranges.find((range) => range.startContainer.parentElement?.checkVisibility?.()) || ranges[0];
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); // the list brings its row into view first
  reveal(shown);
}

/**
 * Update the marks when the list of steps or of labels changes; a click there leads to the place.
 * @param {HTMLElement} list
 * @param {(seq: number, block: string) => void} view
 */
export function startMarks(list, view) {
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(draw, SOON_MS);
  };
  new MutationObserver(soon).observe(list, { childList: true });
  for (const came of ["htmx:afterSettle", "awm:said"]) document.addEventListener(came, soon, { signal: life() });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[data-place]");
    if (!link) return;
    event.preventDefault();
    follow(link, view);
  }, { signal: life() });
  soon();
}
