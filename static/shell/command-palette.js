// The command palette (`Ctrl+K`): the keys of this page and the links of the menus, found by their text, and below them
// what the server finds in the project, which htmx fetches (`awmweb/searching.py`).

import { act, bind, caps, usableKeys } from "./keys.js";
import { walk } from "./arrow-keys.js";

const SHOWN = 12;

/**
 * Return the entries that have all typed words, those that begin with them first; all entries if nothing is typed.
 * @param {{words: string, cap?: string, go?: () => void}[]} entries
 * @param {string} typed
 */
export function matching(entries, typed) {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter(({ words }) => wanted.every((one) => words.toLowerCase().includes(one)));
  const first = ({ words }) => words.toLowerCase().startsWith(typed.trim().toLowerCase());
  return [...found.filter(first), ...found.filter((one) => !first(one))];
}

function places() {
  const links = [...document.querySelectorAll('nav[aria-label="Main"] a, .menu-list a:not([data-act])')];
  // the menu of projects has links, too, and a project can be named as a page is
  const verb = (link) => (link.closest(".proj") ? "switch to" : "go to");
  return links.map((link) => ({ words: `${verb(link)} ${link.textContent.trim()}`, go: () => link.click() }));
}

function entries() {
  const keys = usableKeys().filter(({ id, onlyField }) => id !== "palette" && !onlyField && !id.startsWith("go-"));
  return [...keys.map(({ id, keys: [cap], words }) => ({ words, cap, go: () => act(id) })), ...places()];
}

export function startPalette() {
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const [field, list] = [dialog.querySelector("input"), dialog.querySelector("[data-commands]")];
  const found = dialog.querySelector("#found");
  const tell = () => {
    dialog.querySelector("[data-none]").hidden = shown.length > 0 || found.childElementCount > 0;
  };
  // what another text found is drawn until this one's arrives, and no press opens it
  const outdate = () => {
    field.dispatchEvent(new CustomEvent("htmx:abort", { bubbles: true, detail: { elt: field } }));
    found.inert = true;
  };
  let shown = [];
  const show = () => {
    shown = matching(entries(), field.value).slice(0, SHOWN);
    list.replaceChildren(...shown.map((one, n) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "pickable row" });
      button.dataset.entry = String(n);
      button.append(Object.assign(document.createElement("span"), { textContent: one.words }));
      if (one.cap) {
        const box = Object.assign(document.createElement("span"), { className: "push" });
        box.append(caps(one.cap));
        button.append(box);
      }
      const item = document.createElement("li");
      item.append(button);
      return item;
    }));
    tell();
  };
  const go = (n) => {
    if (!shown[n]) return false;
    dialog.close();
    shown[n].go();
    return true;
  };
  bind("palette", () => {
    field.value = "";
    outdate();
    found.replaceChildren();
    dialog.showModal();
    show();
  });
  field.addEventListener("input", () => {
    outdate();
    show();
  });
  dialog.addEventListener("htmx:afterSwap", () => {
    found.inert = false;
    tell();
  });
  dialog.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!go(0) && !found.inert) found.querySelector("a")?.click();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || document.activeElement !== field) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // the first step enters the list and does not skip its first entry
    /** @type {HTMLElement} */ (dialog.querySelector("[data-entry]"))?.focus();
  });
  walk(dialog, "[data-entry]");
  list.addEventListener("click", (event) => {
    const entry = event.target instanceof Element && event.target.closest("[data-entry]");
    if (entry) go(Number(entry.dataset.entry));
  });
}
