// The page of an ask above a phone's keyboard. The visual viewport reports the space that is left; below 620 px, while someone
// writes, the question, the countdown and Send stay at its edges.

import { startMore } from "../shell/disclosure.js";
import { life } from "../shell/page-life.js";

const SMALL = "(max-width: 760px)";
const ROOM = 620; // pages with more height need no help

/**
 * Return whether the page makes room: someone writes on a small screen with little height left.
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
    const height = view ? view.height * (view.scale || 1) : innerHeight; // a zoomed page has no keyboard for that
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

/**
 * Return what stays in sight when the page gets another width: the field with the focus, else the answer if it was in view.
 * @param {{stacked: boolean, focused: Element | null, was: string}} page
 */
export function keptInSight({ stacked, focused, was }) {
  if (!stacked) return "";
  return focused ? "field" : was === "answer" ? "answer" : "";
}

/** Mark the part of the stacked page that is in view, which it stays when the phone is turned or the window narrowed. */
export function startJump() {
  const [question, answer] = document.querySelectorAll("nav.jump a");
  if (!answer) return;
  const [part, small] = [document.getElementById("answer"), matchMedia(SMALL)];
  let [was, width] = ["question", innerWidth];
  const place = () => {
    if (!small.matches) return;
    was = part.getBoundingClientRect().top < innerHeight / 2 ? "answer" : "question";
    for (const [link, is] of /** @type {[Element, boolean][]} */ ([[question, was === "question"], [answer, was === "answer"]])) {
      if (is) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const turned = () => {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const kept = width === innerWidth ? "" : keptInSight({ stacked: small.matches, focused, was });
    width = innerWidth;
    if (kept === "field") focused.scrollIntoView({ block: "center" });
    if (kept === "answer") part.scrollIntoView();
    if (!small.matches) was = "question"; // both parts are side by side
    place();
  };
  document.addEventListener("scroll", place, { passive: true, signal: life() });
  addEventListener("resize", () => requestAnimationFrame(turned), { signal: life() });
  place();
}
