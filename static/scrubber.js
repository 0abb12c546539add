// Replay: one step in view, moved by keys, by the scrubber and by play; its number stands in the URL.

import { bind, print } from "./keys.js";
import { all, choose, openAll } from "./steps.js";

const PLAY_MS = 900;
const MARKS = "weoafcdCXJv";

/** The number of the next step after `at` in direction `step` whose letter is in `marks`; `at` if there is none. */
export function nextMark(letters, at, step, marks = MARKS) {
  for (let n = at + step; n >= 0 && n < letters.length; n += step) if (marks.includes(letters[n])) return n;
  return at;
}

/** `url` with `?step=` set to `seq`. */
export function withStep(url, seq) {
  const out = new URL(url);
  out.searchParams.set("step", String(seq));
  return out.pathname + out.search;
}

let playing = null;

function show(at, { scroll = true } = {}) {
  const steps = all();
  const step = steps[Math.min(steps.length - 1, Math.max(0, at))];
  if (!step) return;
  choose(step, { scroll: false });
  if (scroll) step.scrollIntoView({ block: "center" });
  const seq = Number(step.dataset.seq);
  history.replaceState(null, "", withStep(location.href, seq));
  for (const tick of document.querySelectorAll(".scrub a")) {
    const own = Number(tick.dataset.seq);
    tick.classList.toggle("past", own < seq);
    tick.toggleAttribute("aria-current", own === seq);
    if (own === seq) {
      tick.setAttribute("aria-current", "true");
      tick.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }
  const where = document.querySelector("[data-where]");
  if (where) where.textContent = `step ${seq} of ${steps.at(-1).dataset.seq}`;
  const slider = document.querySelector("[data-slider]");
  if (slider) slider.value = String(seq);
}

const here = () => Math.max(0, all().findIndex((step) => step.hasAttribute("aria-current")));

function play() {
  const button = document.querySelector('[data-play]');
  if (playing) {
    clearInterval(playing);
    playing = null;
  } else {
    if (here() >= all().length - 1) show(0);
    playing = setInterval(() => {
      if (here() >= all().length - 1) return play();
      return show(here() + 1);
    }, PLAY_MS);
  }
  if (button) button.firstChild.textContent = playing ? "Stop " : "Play ";
}

export function start() {
  const letters = () => all().map((step) => step.dataset.code);
  bind("back", () => show(here() - 1));
  bind("forth", () => show(here() + 1));
  bind("back-mark", () => show(nextMark(letters(), here(), -1)));
  bind("forth-mark", () => show(nextMark(letters(), here(), 1)));
  bind("first", () => show(0));
  bind("last", () => show(all().length - 1));
  bind("play", play);
  bind("open-all", openAll);
  document.querySelector("[data-play]")?.addEventListener("click", play);
  document.querySelector("[data-slider]")?.addEventListener("input", (event) => {
    show(all().findIndex((step) => Number(step.dataset.seq) === Number(event.target.value)));
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest(".scrub a, a.seq");
    if (!link) return;
    event.preventDefault();
    const seq = link.dataset.seq || link.closest("[data-seq]").dataset.seq;
    show(all().findIndex((step) => step.dataset.seq === seq), { scroll: link.matches(".scrub a") });
  });
  show(here());
  print();
}

if (typeof document !== "undefined" && document.body?.dataset.page === "replay") start();
