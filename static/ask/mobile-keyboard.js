// The ask page on a phone with its keyboard open: the question, the countdown and Send stay in what is left to see. Phones
// either shrink the page or slide it below the keyboard; the visual viewport says what is left in both cases.

import { startMore } from "../shell/disclosure.js";
import { life } from "../shell/page-life.js";

const SMALL = "(max-width: 760px)";
const ROOM = 620; // more height than this needs no help

/**
 * Whether the page must make room: somebody writes on a small screen and little of it is left.
 * @param {{small: boolean, writing: boolean, height: number}} view
 */
export function isTight({ small, writing, height }) {
  return small && writing && height < ROOM;
}

/**
 * @param {HTMLFormElement} form
 */
export function startSmall(form) {
  const [small, view, root] = [matchMedia(SMALL), globalThis.visualViewport, document.documentElement];
  const writes = () => Boolean(form.contains(document.activeElement) && document.activeElement.matches("textarea, input:not([type=checkbox]), select"));
  const place = () => {
    const height = view ? view.height * (view.scale || 1) : innerHeight; // who looks closer has no keyboard for that
    const tight = isTight({ small: small.matches, writing: writes(), height });
    const was = root.classList.contains("keyboard");
    root.classList.toggle("keyboard", tight);
    root.style.setProperty("--view-top", `${Math.max(0, view?.offsetTop ?? 0)}px`);
    root.style.setProperty("--view-height", `${view?.height ?? innerHeight}px`);
    if (tight && !was) document.activeElement.scrollIntoView({ block: "center" });
    if (was && !tight) document.getElementById("answer").scrollIntoView(); // the question is back above it
  };
  const soon = () => requestAnimationFrame(place);
  for (const kind of ["resize", "scroll"]) view?.addEventListener(kind, soon, { signal: life() });
  for (const kind of ["focusin", "focusout"]) document.addEventListener(kind, soon, { signal: life() });
  addEventListener("resize", soon, { signal: life() });
  place();
  startMore(form);
}

/** Which part of the stacked page is before the reader. */
export function startJump() {
  const [question, answer] = document.querySelectorAll("nav.jump a");
  if (!answer) return;
  const place = () => {
    const there = document.getElementById("answer").getBoundingClientRect().top < innerHeight / 2;
    for (const [link, is] of /** @type {[HTMLElement, boolean][]} */ ([[question, !there], [answer, there]])) {
      if (is) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  document.addEventListener("scroll", place, { passive: true, signal: life() });
  place();
}
