// The live page: steps as they happen, following the newest unless the reader looks elsewhere, and a pause of the view.

import { bind, print } from "./keys.js";
import { announce, watch } from "./shell.js";
import { all, choose, feed, lastSeq, list, startKeys } from "./steps.js";

const SLOW_MS = 10_000;
const NEAR_PX = 80;

const page = document.querySelector("[data-episode]");
const pane = document.querySelector("[data-scroll]");
const pill = document.querySelector("[data-follow]");
let following = true;
let paused = false;
let unseen = 0;

// wide screens scroll the pane, small ones the page, in which more stands below the steps
const stacked = () => getComputedStyle(pane).overflowY === "visible";
const atEnd = () => stacked()
  ? list().getBoundingClientRect().bottom < innerHeight + NEAR_PX
  : pane.scrollHeight - pane.scrollTop - pane.clientHeight < NEAR_PX;

function toEnd() {
  if (!stacked()) pane.scrollTop = pane.scrollHeight;
  else if (!atEnd()) list().scrollIntoView({ block: "end" });
}

function sayFollow() {
  pill.firstChild.textContent = paused ? `Paused${unseen ? `, ${unseen} new` : ""} ` : following ? "Following " : unseen ? `${unseen} new ↓ ` : "Follow ";
  pill.setAttribute("aria-pressed", String(following && !paused));
}

function follow(on = true) {
  following = on;
  if (on) {
    paused = false;
    unseen = 0;
    toEnd();
  }
  sayFollow();
}

function merged(added) {
  if (added.length) announce(added.length === 1 ? `Step ${added[0]}` : `Steps ${added[0]} to ${added.at(-1)}`);
  document.body.dataset.title = document.querySelector("[data-part=strap]").dataset.title;
  if (following && !paused) toEnd();
  else unseen += added.length;
  sayFollow();
  print();
}

const source = feed(page.dataset.fragments, merged);

function onFrame(frame) {
  if (paused) {
    unseen += frame.type === "steps" ? frame.steps.length : 0;
    return sayFollow();
  }
  if (frame.type === "steps" && frame.steps.length) source.hint(frame.steps.map((step) => step.seq));
  else if (frame.type !== "presence") source.hint([lastSeq() + 1]);
}

function pause() {
  paused = !paused;
  if (!paused) {
    unseen = 0;
    source.catchUp();
    follow(following);
  }
  sayFollow();
}

if (list()) {
  startKeys("step-down", "step-up");
  if (page.dataset.live === "yes") {
    bind("follow", () => follow(!following || paused));
    bind("pause", pause);
  }
  bind("newest", () => {
    choose(null);
    follow(true);
  });
  pill.addEventListener("click", () => follow(!following || paused));
  for (const box of [pane, document]) {
    box.addEventListener("scroll", () => {
      if (following !== atEnd() && !paused) {
        following = atEnd();
        if (following) unseen = 0;
        sayFollow();
      }
    }, { passive: true });
  }
  if (location.hash) choose(document.querySelector(location.hash));
  else toEnd();
  print();
}

if (page.dataset.live === "yes") {
  watch(page.dataset.socket, { since: lastSeq, onFrame, onGap: () => source.catchUp(), onBack: () => source.catchUp() });
  setInterval(() => {
    if (!paused && document.visibilityState === "visible" && document.querySelector('[data-live-now="yes"]')) source.catchUp();
  }, SLOW_MS);
}

addEventListener("hashchange", () => choose(all().find((step) => `#${step.id}` === location.hash)));
