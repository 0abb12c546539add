// A case of the court: digits choose a ruling while the focus is in its panel, and Ctrl Enter gives it.

import { bind, print } from "../shell/keys.js";
import { focusPart, hasFocus } from "../shell/key-rule.js";

const RULINGS = [
  ["ruling-1", "1"], ["ruling-2", "2"], ["ruling-3", "3"], ["ruling-4", "4"], ["ruling-5", "5"], ["ruling-6", "6"], ["ruling-7", "7"],
];

const panel = /** @type {HTMLElement | null} */ (document.querySelector("[data-rulings]"));

function start() {
  const radios = /** @type {HTMLInputElement[]} */ ([...panel.querySelectorAll("[type=radio]")]);
  const give = /** @type {HTMLButtonElement} */ (document.querySelector('[data-act="give-ruling"]'));
  for (const [id, number] of RULINGS) {
    const radio = radios[Number(number) - 1];
    if (!radio) continue;
    bind(id, () => {
      radio.click();
      focusPart(radio);
    }, () => hasFocus("[data-rulings]"));
    const cap = /** @type {HTMLElement} */ (panel.querySelector(`[data-ruling-cap="${number}"]`));
    cap.dataset.cap = id;
  }
  bind("ruling", () => focusPart(panel), () => !hasFocus("[data-rulings]"));
  bind("give-ruling", () => give.form.requestSubmit(give));
  document.addEventListener("focusin", print);
  print();
}

if (panel) start();
