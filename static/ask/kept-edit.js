// An edited call that is approved: approving it keeps the edit, which runs as it was typed. Another button takes it back.

import { make } from "./part-digits.js";

/**
 * Return whether a card's edit stays when its call is approved, and say so on the card.
 * @param {{call: object, draft: import("./call-edit.js").CallDraft, element: HTMLElement, decide: (verdict: string) => void}} card
 * @param {(call: any, texts: Record<string, string>) => string[]} changedIn
 */
export function keptEdit(card, changedIn) {
  if (card.draft.verdict !== "edit" || !changedIn(card.call, card.draft.texts || {}).length) return false;
  if (card.element.querySelector("[data-take-back]")) return true;
  const [line, button] = [make("p", "meta row wrap", "Approved with your values. "), make("button", "btn sm quiet", "Use the agent's values")];
  Object.assign(button, { type: "button" });
  line.dataset.takeBack = "";
  line.setAttribute("role", "status");
  line.append(button);
  button.addEventListener("click", () => {
    card.draft = { ...card.draft, texts: undefined, arguments: undefined, verdict: "" };
    card.decide("approve");
    card.element.focus();
  });
  card.element.querySelector(".values").append(line);
  return true;
}
