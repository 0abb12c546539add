// The page of an ask: connects the form, the steps beside it, and the sockets. HTTP requests change an ask; a frame only says
// that it changed. The next ask replaces `<main>` and starts this script again (`next-ask.js`).

import { startAssist, keepTicks } from "./answer-assist.js";
import { startTags, startUnsent } from "./ask-feedback.js";
import { form, freeze, heldBy, isBlank, isLost, mount, page, startForm } from "./ask-form.js";
import { answeredWords, keepWords } from "./closed-ask.js";
import { serverNow } from "../shell/clock.js";
import { startContext } from "./ask-panels.js";
import { showAgain } from "../shell/address.js";
import { Store } from "../forms/drafts.js";
import { print } from "../shell/keys.js";
import { startQuestion } from "./question-scroll.js";
import { swapsTo } from "./next-ask.js";
import { begin, every, life } from "../shell/page-life.js";
import { announce } from "../shell/toast.js";
import { startSimilar } from "./similar-answers.js";
import { startJump, startSmall } from "./mobile-keyboard.js";
import { keepTrue, lists, startKeys } from "../steps/steps.js";

const announced = new Set();
let passed = null; // the end of the ask, which came while its answer was being sent
let leaving = false; // a form is being sent; reloading for the frame it causes would race with the response
document.addEventListener("submit", (event) => { leaving = !event.defaultPrevented; });
document.addEventListener("awm:unsent", () => { // without a response: the end that came meanwhile may be that of this answer
  if (passed?.ask === page.dataset.ask) setTimeout(heard, 0, passed);
  passed = null;
});
addEventListener("pageshow", () => { leaving = false; }); // back from the history, as the page was left

function announceCountdown() {
  const timer = document.querySelector("[data-in-hand] [data-deadline]") || document.querySelector(".cd.big[data-deadline]");
  if (!timer) return;
  const left = Math.round((Date.parse(timer.dataset.deadline) - serverNow()) / 1000);
  for (const mark of [60, 30, 10]) {
    if (left <= mark && left > mark - 3 && !announced.has(mark)) {
      announced.add(mark);
      announce(`${mark} seconds left`);
    }
  }
}


function startLists() {
  const all = lists({
    onNew: (from, to) => { if (page.dataset.status === "answered") announce(`New step: ${to}`); },
    onChange: keepTicks,
  });
  const list = all.at(-1);
  if (!list) return null;
  startKeys(list);
  let early = true;
  const { catchUp } = keepTrue(list, page.dataset.socket, {
    hold: () => Boolean(form?.dataset.sending), // its response mostly brings another page
    heard(frame) {
      if (early) list.refresh().catch(() => {}); // what happened between the page and its socket; the slow timer retries
      early = false;
      if (frame.type === "ask" && frame.ask === page.dataset.ask) heard(frame);
    },
  });
  const own = form; // another one can be on the page by then
  const unsent = new MutationObserver(() => { if (!own.dataset.sending) catchUp(); });
  if (own) unsent.observe(own, { attributeFilter: ["data-sending"] });
  startFamily(list);
  const [stacked, open] = [list.view.stacked, page.dataset.status === "open"];
  if (stacked && !open) document.getElementById("answer").scrollIntoView();
  if (stacked) return all[0]; // one page for all: it opens at the question, or at the result
  if (open) list.goTo(list.last);
  else {
    all[0].goTo(all[0].last);
    if (!document.querySelector('[data-live-now="yes"]')) list.goTo(list.first, "start");
    else list.follow();
  }
  return all[0];
}

/** Refresh when an ask that got the same answer changes; only the queue's socket reports other episodes. */
function startFamily(list) {
  document.addEventListener("awm:frame", ({ detail }) => {
    const served = [...document.querySelectorAll("[data-part=family] [data-ask]")].map((row) => row.dataset.ask);
    const unsure = detail.type === "queue" || detail.type === "gap"; // a change may have been missed
    if (served.includes(detail.ask) || (unsure && served.length)) list.refresh().catch(() => {}); // lost: the slow timer retries
  }, { signal: life() });
}

/** Someone claimed or closed the ask that is only looked at. What was typed meanwhile stays. */
function heardBeside(frame) {
  const other = frame.held_by && frame.held_by !== page.dataset.me;
  if (!other && frame.status === "open") return;
  if (form && !isBlank()) freeze(other ? `${frame.held_by} claimed this ask. Your text is kept.` : `This ask is closed. ${keepWords(page)}`);
  else showAgain();
}

function heard(frame) {
  if (leaving) return;
  if (page.dataset.looks) return void heardBeside(frame);
  const amends = form && "amends" in form.dataset;
  if (frame.status === "open") {
    if (amends || page.dataset.status !== "open" || form?.dataset.frozen) showAgain(); // withdrawn, or asked again
    else if (!form && (frame.held_by || "") !== page.dataset.heldBy) showAgain();
    else if (form) heldBy(frame.held_by || "");
    return;
  }
  if (form?.dataset.sending) passed = frame;
  if (amends && frame.consumed_at) freeze(`The agent has read your answer. ${keepWords(page)}`);
  else if (form && !amends && !form.dataset.sending && frame.answered_by === page.dataset.me) {
    if (isLost()) showAgain(); // it has arrived
    else freeze(answeredWords(page));
  } else if (form && !amends && !form.dataset.sending) {
    freeze(`This ask closed before your answer was sent. ${frame.ending || ""} ${keepWords(page)}`);
  }
  else if (!form && page.dataset.status === "open") showAgain();
}

/** Bind what is on the page: once with the page, and again for each ask that is swapped in. */
export function start() {
  begin();
  announced.clear();
  mount(swapsTo(start));
  if (form) {
    startForm();
    startAssist();
    startSimilar();
    startSmall(form);
  } else if (page.dataset.status !== "open") startUnsent(new Store(page.dataset.ask, globalThis.localStorage));
  startTags();
  startJump();
  startQuestion();
  every(announceCountdown, 1000);
  const context = startLists();
  startContext((seq) => context?.choose(seq, "center"));
  print();
}

if (document.querySelector("[data-ask]")) start();
