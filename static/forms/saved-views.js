// Saved views of the queue: a list that is fetched when it is opened and a form that saves the page's address under a name.

import { bind, print } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";
import { walk } from "../shell/arrow-keys.js";

/** @type {HTMLDialogElement} */
const dialog = document.getElementById("views");
const box = () => dialog.querySelector("[data-views]");

async function load(path = box().dataset.url, body = null) {
  const problem = () => box().querySelector("[data-view-problem]");
  try {
    box().replaceWith((await fetchFragment(`${path}${location.search}`, body)).querySelector("[data-views]"));
    return true;
  } catch (error) {
    if (problem()) [problem().textContent, problem().hidden] = [error.message, false];
    else box().textContent = error.message;
    return false;
  }
}

const focus = () => (dialog.querySelector("[data-pick]") || dialog.querySelector("input[name=name]"))?.focus();

bind("views", async () => {
  dialog.showModal();
  await load();
  focus();
});
walk(dialog, "[data-pick]");
dialog.addEventListener("click", async (event) => {
  const drop = event.target instanceof Element && event.target.closest("[data-drop]")?.dataset.drop;
  if (drop && (await load(drop, new FormData()))) focus();
});
dialog.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await load(undefined, new FormData(/** @type {HTMLFormElement} */ (event.target)))) focus();
});
print();
