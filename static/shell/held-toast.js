// The toast about answers that are held: it counts down to the moment they leave, and undoes them until then. The server draws it
// with the page, or with the answer that a script sent.

import { isBeside } from "./address.js";
import { tick } from "./clock.js";
import { askOnce, forgetSent } from "./delivery-toast.js";
import { clearActions } from "./toast.js";

const place = () => /** @type {HTMLElement | null} */ (document.querySelector("[data-held-answers]"));

/** @param {ParentNode} toast */
const asksOf = (toast) => [.../** @type {NodeListOf<HTMLInputElement>} */ (toast.querySelectorAll("input[name=ask]"))].map((field) => field.value);

/**
 * Show what is held now; nothing hides the toast.
 * @param {string} html
 */
export function showHeld(html) {
  const toast = place();
  if (!toast) return;
  toast.innerHTML = html;
  toast.hidden = !html;
  tick(toast);
  clearActions(toast);
}

/** An answer that left has no undo: of several, those that are held stay. */
function heard({ detail }) {
  const toast = place();
  if (detail.type !== "ask" || detail.status === "open" || !asksOf(toast).includes(detail.ask)) return;
  toast.querySelector(`input[name=ask][value="${CSS.escape(detail.ask)}"]`)?.remove();
  if (!asksOf(toast).length) showHeld("");
}

/** Let an undo lead back to the list as it is, with the ask beside it. @param {HTMLFormElement} form */
function returnBeside(form) {
  const query = Object.assign(document.createElement("input"), { type: "hidden", name: "beside", value: location.search });
  form.append(query);
}

/** Listen for the end of a hold. Reading an ask then is enough for its answer to leave. */
export function startHeld() {
  const toast = place();
  if (!toast) return;
  clearActions(toast);
  toast.addEventListener("awm:deadline", () => {
    showHeld("");
    askOnce();
  });
  toast.addEventListener("submit", ({ target }) => {
    forgetSent(asksOf(toast));
    if (isBeside()) returnBeside(/** @type {HTMLFormElement} */ (target));
  });
  document.addEventListener("awm:frame", heard);
}
