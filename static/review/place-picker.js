// What a label of the review page applies to: the step in view, a value in it, or letters of a text. Letters are selected on
// the page by pointer, or in a text box by keyboard; v and ⇧V move through the values of the step.

import { act, bind, print } from "../shell/keys.js";
import { life, whenOver } from "../shell/page-life.js";
import { BOXES, boxesOf, lettersIn, mark, rangesIn, readIn, reveal, rowOf, storedStep } from "../steps/place-marks.js";
import { linesOf, nodeAt, placeOf, placeOfNode, textOf, Unlike, unitsOf, valuesIn, written } from "../steps/places.js";
import { visible } from "../shell/visible-text.js";

const BREATH_MS = 150;
const SHOWN = 16_000; // letters of a text in the box
const QUOTED = 60;
const SENT = 50_000; // letters of a quote that the server compares
const HINT = "Labels apply to the whole step. To label a part, select text, click a name, or press v.";

/** @typedef {import("../steps/places.js").Place} Place */

/** @type {{seq: number, place: Place | null, root: import("../steps/places.js").Node | null}} */
const now = { seq: 0, place: null, root: null };
/** @type {(seq: number, block: string) => void} */
let view = null;

const find = (/** @type {string} */ name) => /** @type {HTMLElement} */ (document.querySelector(`[data-${name}]`));
const areaOf = () => /** @type {HTMLTextAreaElement} */ (document.querySelector("[data-letters] textarea"));

/** Return the name of a place as the server writes it. @param {Place} place */
function whereIn({ path, start, end }) {
  if (start === undefined) return path;
  return end - start === 1 ? `${path}, letter ${end}` : `${path}, letters ${start + 1} to ${end}`;
}

function draw() {
  const { seq, place, root } = now;
  const quote = place && root ? written(root, place) : null;
  const said = quote === null ? "" : `: “${[...quote].slice(0, QUOTED).join("")}${[...quote].length > QUOTED ? "…" : ""}”`;
  find("place-title").textContent = place ? "Label selection" : `Label step ${seq}`;
  say(place ? visible(`${whereIn(place)}${said}`) : HINT);
  for (const one of document.querySelectorAll("[data-target]")) one.textContent = place ? "selection" : `step ${seq}`;
  const fields = { ...place, quote: place?.start !== undefined && quote !== null && quote.length <= SENT ? JSON.stringify(quote) : "" };
  for (const field of document.querySelectorAll("input[data-place-field]")) field.value = String(fields[field.dataset.placeField] ?? "");
  for (const one of document.querySelectorAll("[data-part-only]")) one.toggleAttribute("hidden", !place);
  drawLetters();
  markChosen();
  document.dispatchEvent(new CustomEvent("awm:place"));
}

/** @param {string} words @param {boolean} [bad] */
function say(words, bad = false) {
  const line = find("place-says");
  line.textContent = words;
  line.classList.toggle("bad", bad);
}

/** Show the text of the place in the box; selecting in it changes the place. */
function drawLetters() {
  const [area, box] = [areaOf(), find("letters")];
  const node = now.place && now.root && nodeAt(now.root, now.place.path);
  box.hidden = node?.kind !== "string";
  if (box.hidden || document.activeElement === area) return;
  area.value = visible([...textOf(node)].slice(0, SHOWN).join(""));
}

function markChosen() {
  const row = now.place && rowOf(now.seq);
  mark("found", []);
  mark("place", row && now.root ? rangesIn(row, now.root, now.place) : []);
}

/**
 * Apply labels to a part of a step.
 * @param {number} seq
 * @param {Place} place
 * @param {import("../steps/places.js").Node} root
 */
function choose(seq, place, root) {
  if (seq !== now.seq) view(seq, "nearest");
  Object.assign(now, { seq, place, root });
  draw();
  print();
}

/** Apply labels to the whole step. */
function clear() {
  if (!now.place) return false;
  Object.assign(now, { place: null, root: null });
  if (find("letters").contains(document.activeElement)) find("place-bar").focus();
  getSelection()?.removeAllRanges();
  draw();
  print();
  return true;
}

/** Run a job, and say so if a text turns out to have no places. @param {() => void | Promise<void>} job */
async function trying(job) {
  try {
    await job();
  } catch (error) {
    if (!(error instanceof Unlike)) throw error;
    clear();
    say("This part can't be labeled: no path can name it. Label the whole step.", true);
  }
}

const OTHERWISE = "This text is not shown as it is stored, so its letters can't be labeled. Label the value, or the step.";

/** Choose what the reader selected in the list of steps. @param {HTMLElement} list */
async function fromSelection(list) {
  const selection = getSelection();
  if (!selection?.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0);
  if (!list.contains(range.commonAncestorContainer)) return;
  const rows = [...list.querySelectorAll(":scope > li.step[data-seq]")].filter((row) => range.intersectsNode(row));
  const parts = rows.flatMap(boxesOf).map((box) => ({ box, letters: lettersIn(box, range) }));
  const [found, ...more] = parts.filter(({ letters: [from, to] }) => from < to);
  if (!found || more.length) {
    clear();
    const drawn = /** @type {Element} */ (range.commonAncestorContainer.parentElement).closest(".md");
    if (!found && drawn) {
      drawn.querySelector("details").open = true;
      return say("This text is drawn as Markdown. Select the part in its source below.", true);
    }
    say(found ? "Select within one text: it spans several now." : "Select text of a message, a call, a result or an answer.", true);
    return;
  }
  const seq = Number(/** @type {HTMLElement} */ (found.box.closest("li.step")).dataset.seq);
  const root = await storedStep(seq);
  const read = root && readIn(found.box, root);
  const place = read && placeOf(read.units, ...found.letters);
  if (place) choose(seq, place, root);
  else say(root ? OTHERWISE : "Can't reach the server. Select it again.", true);
}

/** Choose the value whose argument or field name was clicked. @param {Element} target */
async function fromName(target) {
  const named = /** @type {HTMLElement} */ (target.closest("[data-names]"));
  const key = target.closest("pre[data-path] .jk");
  if ((!named && !key) || !getSelection()?.isCollapsed) return;
  const seq = Number(/** @type {HTMLElement} */ (target.closest("li.step")).dataset.seq);
  const root = await storedStep(seq);
  if (!root) return say("Can't reach the server. Click it again.", true);
  if (named && !nodeAt(root, named.dataset.names)) return say(OTHERWISE, true);
  if (named) return choose(seq, { path: named.dataset.names }, root);
  const box = /** @type {HTMLElement} */ (key.closest("[data-path]"));
  const range = new Range();
  range.selectNodeContents(key);
  const [at] = lettersIn(box, range);
  const unit = readIn(box, root)?.units.find((one) => one.size && one.at >= at);
  if (!unit) return say(OTHERWISE, true);
  choose(seq, placeOfNode(unit.node), root);
}

/**
 * Return what a part of a step card names or shows: a value, or the values in it, and of an error its lines, too.
 * @param {HTMLElement} part
 * @param {import("../steps/places.js").Node} root
 * @returns {Place[]}
 */
function placesIn(part, root) {
  const path = part.dataset.names;
  if (path) return nodeAt(root, path) ? [{ path }] : [];
  const read = readIn(part, root);
  return read ? [...valuesIn(read.units, read.node), ...(part.dataset.part ? linesOf(read.node) : [])] : [];
}

/** Choose the next value of the step in view, or the previous one. @param {number} step */
async function go(step) {
  const [row, root] = [rowOf(now.seq), await storedStep(now.seq)];
  if (!row || !root) return;
  const key = (place) => JSON.stringify([place.path, place.start, place.end]);
  const places = new Map();
  for (const part of row.querySelectorAll(`${BOXES}, [data-names]`)) {
    for (const place of placesIn(/** @type {HTMLElement} */ (part), root)) if (!places.has(key(place))) places.set(key(place), place);
  }
  const all = [...places.values()];
  if (!all.length) return say("This step has no values to label. Label the step.", true);
  const at = now.place ? all.findIndex((place) => key(place) === key(now.place)) : -1;
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length;
  choose(now.seq, all[next], root);
  const ranges = rangesIn(row, root, all[next]);
  if (ranges.length) reveal(ranges[0]);
}

/** Choose what is selected in the box. */
function fromLetters() {
  const area = areaOf();
  if (area.selectionStart === area.selectionEnd || !now.place) return;
  const node = nodeAt(now.root, now.place.path);
  const units = unitsOf(area.value, node);
  const place = units && placeOf(units, area.selectionStart, area.selectionEnd);
  if (place) choose(now.seq, place, now.root);
}

function startLetters() {
  const area = areaOf();
  for (const kind of ["select", "keyup", "pointerup"]) area.addEventListener(kind, () => trying(fromLetters));
  area.addEventListener("beforeinput", (event) => event.preventDefault()); // a read-only box has no caret
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") area.blur();
    else if (/^[1-9]$/.test(event.key)) act(`label-${event.key}`); // the box takes no text
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  bind("letters", () => {
    if (find("letters").hidden) return say("Press v until a text is selected, then t.", true);
    area.focus();
    if (now.place.start === undefined) area.setSelectionRange(0, 0);
  });
}

/** Choose the place that a refused form named. */
async function restore() {
  const given = (/** @type {string} */ name) => document.querySelector(`input[data-place-field="${name}"]`)?.value || "";
  const [path, start, end, seq] = [given("path"), given("start"), given("end"), now.seq];
  const root = path && (await storedStep(seq));
  if (root && seq === now.seq && nodeAt(root, path)) choose(seq, start ? { path, start: Number(start), end: Number(end) } : { path }, root);
}

/** Follow the step in view. */
export function follow(seq) {
  if (seq === now.seq || !find("place-bar")) return;
  const first = !now.seq;
  Object.assign(now, { seq, place: null, root: null });
  const given = first && document.querySelector('input[data-place-field="path"]')?.value;
  if (given) restore();
  else draw();
}

/**
 * Listen in the list of steps.
 * @param {(seq: number, block: string) => void} show
 */
export function startPlaces(show) {
  const list = document.querySelector("ol[data-steps]");
  if (!find("place-bar") || !list) return;
  view = show;
  Object.assign(now, { seq: 0, place: null, root: null });
  let timer = 0;
  document.addEventListener("selectionchange", () => {
    clearTimeout(timer);
    timer = setTimeout(() => trying(() => fromSelection(list)), BREATH_MS);
  }, { signal: life() });
  document.addEventListener("awm:said", clear, { signal: life() });
  whenOver(() => clearTimeout(timer));
  list.addEventListener("click", (event) => { trying(() => fromName(/** @type {Element} */ (event.target))); });
  new MutationObserver(markChosen).observe(list, { childList: true });
  bind("next-value", () => { trying(() => go(1)); });
  bind("previous-value", () => { trying(() => go(-1)); });
  bind("whole-step", clear);
  startLetters();
}
