// Tabs beside the question that are fetched when they are opened: the rows that steps changed, and the verifier's text if the
// answer may use it. A key opens a tab and, pressed again, returns to the steps.

import { bind } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";

const byId = (id) => document.getElementById(id);

/**
 * Return whether a row has all words of the filter, in any order and case.
 * @param {string} text
 * @param {string} wanted
 */
export function holds(text, wanted) {
  const words = text.toLowerCase();
  return wanted.toLowerCase().split(/\s+/).filter(Boolean).every((one) => words.includes(one));
}

function filter(box, wanted) {
  let left = 0;
  for (const table of box.querySelectorAll("[data-table]")) {
    const name = table.querySelector(".h3").textContent;
    let rows = 0;
    for (const row of table.querySelectorAll("tbody tr")) {
      row.hidden = !holds(`${name} ${row.textContent}`, wanted);
      rows += row.hidden ? 0 : 1;
    }
    table.hidden = rows === 0;
    left += rows;
  }
  const none = box.querySelector("[data-no-rows]");
  if (none) none.hidden = left > 0;
}

async function load(panel) {
  const before = { filter: panel.querySelector("[data-filter]")?.value || "", side: panel.querySelector(".tables")?.dataset.show };
  panel.setAttribute("aria-busy", "true");
  try {
    const fresh = await fetchFragment(panel.dataset.lazy);
    panel.replaceChildren(...fresh.body.childNodes);
    restore(panel, before);
  } catch (error) {
    const words = document.createElement("p");
    words.className = "problem";
    words.textContent = error instanceof TypeError ? "Can't reach the server. Open this again when you're online." : error.message;
    panel.replaceChildren(words);
  }
  panel.removeAttribute("aria-busy");
}

function restore(panel, before) {
  const field = panel.querySelector("[data-filter]");
  if (!field) return;
  field.value = before.filter;
  filter(panel, before.filter);
  if (before.side) show(panel, before.side);
}

function show(panel, side) {
  panel.querySelector(".tables").dataset.show = side;
  for (const button of panel.querySelectorAll("[data-side]")) button.setAttribute("aria-pressed", String(button.dataset.side === side));
}

function toggle(name) {
  const tab = byId(`tab-${name}`);
  const open = tab.getAttribute("aria-selected") === "true";
  (open ? byId("tab-steps") : tab).click();
}

/**
 * Bind the tabs; `goTo(seq)` brings a step into view.
 * @param {(seq: number) => void} goTo
 */
export function startContext(goTo) {
  for (const panel of document.querySelectorAll("[data-lazy]")) {
    panel.addEventListener("awm:tab", () => load(panel));
    panel.addEventListener("input", (event) => {
      const field = /** @type {HTMLInputElement} */ (event.target);
      if (field.matches("[data-filter]")) filter(panel, field.value);
    });
    panel.addEventListener("click", (event) => {
      const target = event.target instanceof Element ? event.target : null;
      const side = target?.closest("[data-side]")?.dataset.side;
      if (side) show(panel, side);
      const step = /^#step-(\d+)$/.exec(target?.closest("a")?.getAttribute("href") || "")?.[1];
      if (!step) return;
      event.preventDefault();
      byId("tab-steps").click();
      goTo(Number(step));
    });
  }
  bind("tables", () => toggle("tables"));
  if (byId("tab-verifier")) bind("verifier", () => toggle("verifier"));
}
