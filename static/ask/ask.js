// The ask page: the form if the ask is in hand, what the agent does with the answer once it is sent, and the steps beside
// both. HTTP writes, the sockets only tell.

import { startAssist, keepTicks } from "./answer-assist.js";
import { startTags, startUnsent } from "./ask-feedback.js";
import { form, freeze, heldBy, keepWords, mount, page, startForm } from "./ask-form.js";
import { serverNow } from "../shell/clock.js";
import { startContext } from "./ask-panels.js";
import { Store } from "../forms/drafts.js";
import { print } from "../shell/keys.js";
import { swapsTo } from "./next-ask.js";
import { begin, every, life } from "../shell/page-life.js";
import { announce } from "../shell/toast.js";
import { startSimilar } from "./similar-answers.js";
import { startJump, startSmall } from "./mobile-keyboard.js";
import { keepTrue, lists, startKeys } from "../steps/steps.js";

const spoken = new Set();
let leaving = false; // a form is on its way, and a reload for the frame that it causes would race with its page
document.addEventListener("submit", (event) => { leaving = !event.defaultPrevented; });
addEventListener("pageshow", () => { leaving = false; }); // came back to, as it was left

function speakCountdown() {
  const timer = document.querySelector("[data-in-hand] [data-deadline]") || document.querySelector(".cd.big[data-deadline]");
  if (!timer) return;
  const left = Math.round((Date.parse(timer.dataset.deadline) - serverNow()) / 1000);
  for (const mark of [60, 30, 10]) {
    if (left <= mark && left > mark - 3 && !spoken.has(mark)) {
      spoken.add(mark);
      announce(`${mark} seconds left`);
    }
  }
}

/** Parts that the server drew anew need their caps, their ticks and their times. */
function refreshed() {
  keepTicks();
  if (document.querySelector("[data-cap]:empty")) print();
}

function startLists() {
  const all = lists({
    onNew: (from, to) => { if (page.dataset.status === "answered") announce(`New step: ${to}`); },
    onChange: refreshed,
  });
  const list = all.at(-1);
  if (!list) return null;
  startKeys(list, { next: "context-down", before: "context-up", open: "open-all" });
  let early = true;
  keepTrue(list, page.dataset.socket, {
    heard(frame) {
      if (early) list.refresh().catch(() => {}); // what happened between the page and its socket; the slow timer asks again
      early = false;
      if (frame.type === "ask" && frame.ask === page.dataset.ask) heard(frame);
    },
  });
  startFamily(list);
  const [stacked, open] = [list.view.stacked, page.dataset.status === "open"];
  if (stacked && !open) document.getElementById("answer").scrollIntoView();
  if (stacked) return all[0]; // one page for all: it opens at the question, or at what became of it
  if (open) list.goTo(list.last);
  else {
    all[0].goTo(all[0].last);
    if (!document.querySelector('[data-live-now="yes"]')) list.goTo(list.first, "start");
    else list.follow();
  }
  return all[0];
}

/** What becomes of the same answer in other episodes is told by the queue's socket alone. */
function startFamily(list) {
  document.addEventListener("awm:frame", ({ detail }) => {
    const served = [...document.querySelectorAll("[data-part=family] [data-ask]")].map((row) => row.dataset.ask);
    const unsure = detail.type === "queue" || detail.type === "gap"; // something may have been missed before
    if (served.includes(detail.ask) || (unsure && served.length)) list.refresh().catch(() => {}); // lost: the slow timer asks again
  }, { signal: life() });
}

function heard(frame) {
  if (leaving) return;
  const amends = form && "amends" in form.dataset;
  if (frame.status === "open") {
    if (amends || page.dataset.status !== "open") location.reload(); // taken back elsewhere
    else if (!form && (frame.held_by || "") !== page.dataset.heldBy) location.reload();
    else if (form && frame.held_by && frame.held_by !== page.dataset.me) heldBy(frame.held_by);
    return;
  }
  if (amends && frame.consumed_at) freeze(`The agent has read your answer. ${keepWords()}`);
  else if (form && !amends && !form.dataset.sending) {
    freeze(`This ask closed before your answer was sent. ${frame.ending || ""} ${keepWords()}`);
  }
  else if (!form && page.dataset.status === "open") location.reload();
}

/** Bind what stands on the page: once with the page, and again for each ask that is swapped in. */
function start() {
  begin();
  spoken.clear();
  mount(swapsTo(start));
  if (form) {
    startForm();
    startAssist();
    startSimilar();
    startSmall(form);
  } else if (page.dataset.status !== "open") startUnsent(page, new Store(page.dataset.ask, globalThis.localStorage));
  startTags();
  startJump();
  every(speakCountdown, 1000);
  const context = startLists();
  startContext((seq) => context?.choose(seq, "center"));
  print();
}

start();
