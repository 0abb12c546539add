// The list of episodes: commands on what is selected or on all that match, and the dialogs of order and columns. `list-keys.js` selects.
//
// A command acts on the row in view if none is selected. Buttons say how many episodes they take (`data-least`, `data-most`).

import { walk } from "../shell/arrow-keys.js";
import { bind, print } from "../shell/keys.js";
import { counted, grouped } from "../shell/numbers.js";
import { say } from "../shell/toast.js";
import { boxes, choose, countChosen, hasChoice } from "../forms/list-keys.js";

const COMMANDS = [["bulk-review", "review"], ["bulk-label", "label"], ["bulk-compare", "compare"], ["bulk-export", "export"]];

/**
 * Return why a command does not take this many episodes, or "".
 * @param {string} name
 * @param {number} count
 * @param {{least?: string, most?: string}} limits
 */
export function whyNot(name, count, { least = "1", most = "" }) {
  if (count >= Number(least) && !(most && count > Number(most))) return "";
  return most ? `${name} takes ${least} to ${most} episodes.` : `${name} takes at least ${least}.`;
}

/** @type {() => HTMLInputElement} */
const all = () => document.querySelector("[data-all]");
const everything = () => Number(/** @type {HTMLElement} */ (document.querySelector('[data-act="choose-all"]')).dataset.count);
const stopper = () => /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-stops]"));
const buttons = () => /** @type {HTMLButtonElement[]} */ ([...document.querySelectorAll('#bulk button[name="act"]')]);
const nameOf = (button) => button.firstChild.textContent.trim();

/**
 * Bring the bar up to date.
 * @param {number} count of the selected rows
 */
function hear(count) {
  const isAll = !all().disabled && count > 0 && boxes().every((box) => box.checked);
  all().disabled = !isAll;
  const number = isAll ? everything() : count;
  if (isAll) document.querySelector("[data-chosen]").textContent = `All ${grouped(number)} selected`;
  /** @type {HTMLElement} */ (document.querySelector('[data-act="choose-all"]')).hidden = isAll;
  for (const button of buttons()) {
    button.title = whyNot(nameOf(button), number, button.dataset);
    button.disabled = button.title !== "" || number === 0;
  }
  hearStop(number, isAll ? Number(stopper()?.dataset.live) : boxes().filter((box) => box.checked && box.closest("[data-episode]")).length);
  const over = buttons().find((button) => number > Number(button.dataset.most || Infinity));
  document.querySelector("[data-told-why]").textContent = over?.title || "";
  print();
}

/**
 * Say how many live episodes would be stopped.
 * @param {number} count of all selected episodes
 * @param {number} live of them
 */
function hearStop(count, live) {
  const button = stopper();
  if (!button) return;
  button.title = whyNot(nameOf(button), count, button.dataset) || (live ? "" : "No selected episode is live.");
  button.disabled = button.title !== "";
  for (const slot of document.querySelectorAll("[data-stop-words]")) slot.textContent = counted(live, "live episode,live episodes");
}

function chooseAll() {
  for (const box of boxes()) box.checked = true;
  all().disabled = false;
  countChosen();
}

/** Run a command on the selection; without one, on the row in view. */
function act(button) {
  if (!boxes().some((box) => box.checked) && !choose()) return false;
  if (button.disabled) say(button.title, true);
  else button.click();
  return true;
}

/** @param {string} id a dialog whose items the arrow keys walk */
function startDialog(id) {
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById(id);
  bind(id, () => {
    dialog.showModal();
    /** @type {HTMLElement} */ (dialog.querySelector("[data-pick][aria-current]") || dialog.querySelector("[data-pick]")).focus();
  });
  walk(dialog, "[data-pick]");
  dialog.addEventListener("keydown", (event) => {
    const box = /** @type {HTMLElement} */ (event.target);
    if (event.key === "x" && box.matches("input[type=checkbox]")) box.click();
  });
}

function openFilters() {
  /** @type {HTMLInputElement} */
  const fold = document.querySelector(".unfold input");
  fold.checked = true;
  /** @type {HTMLElement} */ (document.querySelector(".facet-rail summary"))?.focus();
}

function openViews() {
  /** @type {HTMLDetailsElement} */
  const views = document.getElementById("saved-views");
  views.open = true;
  /** @type {HTMLElement} */ (views.querySelector(".menu-list a, input[name=name]")).focus();
}

function start() {
  startDialog("sort");
  startDialog("columns");
  bind("filters", openFilters);
  bind("views", openViews);
  walk(document.querySelector(".facet-rail"), ".facet-rail summary, .facet-rail details[open] a");
  walk(document.getElementById("saved-views"), ".menu-list a");
  if (!document.getElementById("bulk")) return print();
  bind("choose-all", chooseAll);
  const selection = /** @type {HTMLFormElement} */ (document.getElementById("selection"));
  if (selection.dataset.kept === "all") chooseAll();
  document.querySelector("[data-stop-form]")?.addEventListener("formdata", (event) => {
    for (const [name, value] of new FormData(selection)) /** @type {FormDataEvent} */ (event).formData.append(name, value);
  });
  for (const [id, name] of COMMANDS) {
    const button = buttons().find((one) => one.value === name);
    if (button) bind(id, () => act(button), hasChoice);
  }
  document.addEventListener("awm:chosen", (event) => hear(/** @type {CustomEvent} */ (event).detail.count));
  countChosen();
  return print();
}

if (typeof document !== "undefined") start();
