// The page of an answer link: the typed part of an answer, checked before it is sent. The lease is taken by the answer itself.

import { parseExact, writeExact } from "../forms/exact-json.js";
import { focusPart } from "../shell/key-rule.js";
import { bind } from "../shell/keys.js";
import { startDecision } from "./decision-form.js";

function start() {
  const form = /** @type {HTMLFormElement} */ (document.querySelector("[data-link-answer]"));
  const box = /** @type {HTMLElement | null} */ (form.querySelector("[data-decision]"));
  const button = form.querySelector("button.main");
  bind("send-link", () => form.requestSubmit());
  let problem = "";
  let showWrong = () => {};
  let first = () => /** @type {HTMLElement} */ (form.querySelector("textarea"));
  if (box) {
    const hidden = /** @type {HTMLInputElement} */ (form.elements.namedItem("decision"));
    const refused = hidden.value;
    const part = startDecision(box, parseExact(document.getElementById("typed-data").textContent), (decision, wrong) => {
      hidden.value = writeExact(decision);
      problem = wrong;
    });
    [first, showWrong] = [() => part.first(), () => part.showWrong()];
    if (refused) part.restore(parseExact(refused)); // what was typed before a refusal
  }
  form.addEventListener("submit", (event) => {
    if (!problem) return void button.setAttribute("aria-busy", "true");
    event.preventDefault();
    const line = /** @type {HTMLElement} */ (form.querySelector("[data-problem]"));
    line.textContent = problem;
    line.hidden = false;
    showWrong();
    line.scrollIntoView({ block: "nearest" });
    focusPart(first());
  });
  if (matchMedia("(pointer: fine)").matches) focusPart(first());
}

start();
