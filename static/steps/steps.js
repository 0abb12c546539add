// The lists of steps of a page: their keys, find, the step that the address names, and what keeps them current.
//
// A list catches up after a gap, a reconnect, a wake of the tab or machine, and every ten seconds: the request has `since`, its
// last number, and `again`, the asks that were waiting. Find (`/`) asks the server for the numbers of matching steps.

import { bind } from "../shell/keys.js";
import { grouped } from "../shell/numbers.js";
import { LongList } from "./longlist.js";
import { every, life } from "../shell/page-life.js";
import { startPictures } from "./pictures.js";
import { wake, watch } from "../shell/connection.js";

/** The letters of steps that are more than a read: writes, asks, errors and verifications. */
export const MARKS = "bweqolafdcCXJv";
const SLOW_MS = 10_000;
const SLEPT_MS = 15_000;

/** Return the lists of this page; the last one is live. */
export function lists(options = {}) {
  return [...document.querySelectorAll("ol[data-steps]")].map((list) => new LongList(list, options));
}

/**
 * Return the step that an address names: `#step-7`, or `?step=7`.
 * @param {string} address
 */
export function stepOf(address) {
  const url = new URL(address);
  const found = /^#step-(\d{1,9})$/.exec(url.hash)?.[1] || /^\d{1,9}$/.exec(url.searchParams.get("step") || "")?.[0];
  return found ? Number(found) : null;
}

/**
 * Choose the next write, ask or error in direction `step`; the last step that is here if there is none.
 * @param {import("./longlist.js").LongList} list
 * @param {number} step
 */
function moveFar(list, step) {
  let seq = list.current ?? list.move(step);
  const codeAt = () => list.kept.get(seq)?.dataset.code;
  do seq += step; while (codeAt() && !MARKS.includes(codeAt()));
  list.choose(seq);
}

/** Bind the keys of every list of steps. @param {import("./longlist.js").LongList} list */
export function startKeys(list) {
  bind("step-down", () => list.move(1));
  bind("step-up", () => list.move(-1));
  bind("mark-down", () => moveFar(list, 1));
  bind("mark-up", () => moveFar(list, -1));
  bind("first", () => list.choose(list.first));
  bind("last", () => list.choose(list.last));
  bind("open-all", () => list.openAll());
  startPictures();
}

/** Go to the step of the address, now and whenever it changes. */
export function startAddress(list, go = (seq) => list.choose(seq, "center")) {
  const read = () => {
    const seq = stepOf(location.href);
    if (seq !== null) go(seq);
    return seq;
  };
  addEventListener("hashchange", read, { signal: life() });
  return read();
}

/**
 * Find in all steps, also those that are not on the page: the server returns the numbers, Enter goes to the next.
 * @param {{list: HTMLElement, choose: (seq: number, block?: ScrollLogicalPosition) => void}} list
 */
export function startFind(list) {
  const form = document.querySelector("[data-finder]");
  if (!form) return;
  const [field, says] = [form.querySelector("input"), form.querySelector("[data-found]")];
  let [asked, seqs, more, at] = ["", [], false, -1];
  const say = () => {
    says.textContent = !asked ? "" : !seqs.length ? "not found" : `${grouped(at + 1)} of ${grouped(seqs.length)}${more ? " and more" : ""}`;
    for (const button of form.querySelectorAll("[data-find-step]")) button.hidden = seqs.length < 2;
  };
  const go = (step) => {
    if (!seqs.length) return;
    at = (at + step + seqs.length) % seqs.length;
    list.choose(seqs[at], "center");
    say();
  };
  const look = async (step) => {
    const text = field.value.trim();
    if (text === asked) return go(step);
    [asked, seqs, more, at] = [text, [], false, -1];
    if (text) {
      says.textContent = "searching";
      const response = await fetch(`${list.list.dataset.find}?q=${encodeURIComponent(text)}`, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (!response.ok) {
        says.textContent = "the server does not answer";
        asked = "";
        return;
      }
      if (text !== asked) return;
      ({ seqs, more } = await response.json());
    }
    say();
    go(1);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look(1);
  });
  field.addEventListener("input", () => { if (!field.value) look(1); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.shiftKey) return;
    event.preventDefault();
    look(-1);
  });
  form.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-find-step]");
    if (button) go(Number(button.dataset.findStep));
  });
}

/**
 * Return the last number in a frame of steps, or of their HTML.
 * @param {Frame} frame
 */
export function lastOf(frame) {
  return frame.last ?? Math.max(0, ...(frame.steps || []).map((step) => step.seq));
}

/**
 * Keep a list current. A frame is a hint: steps extend the list, anything else refreshes the side panel. `hold()` returns whether
 * the reader paused the view; `heard(frame)` receives every frame.
 * @param {import("./longlist.js").LongList} list
 * @param {string} socket
 * @param {{hold?: () => boolean, heard?: (frame: Frame) => void}} [hears]
 */
export function keepTrue(list, socket, { hold = () => false, heard = () => {} } = {}) {
  list.hold = hold;
  const refresh = () => list.refresh().catch(() => {}); // lost now; the slow timer and the return retry
  const catchUp = () => (hold() ? 0 : list.catchUp());
  let lostAt = list.last; // the last number when a socket was lost
  watch(socket, {
    since: () => list.last,
    onFrame(frame) {
      heard(frame);
      if (hold()) return;
      if (frame.type === "steps" || frame.type === "pictures") {
        const before = list.last;
        list.hear(lastOf(frame), frame.html);
        if (frame.html || frame.steps?.length || list.last > before) refresh();
      } else if (frame.type !== "presence") refresh();
    },
    onGap: catchUp,
    onLost: () => { lostAt = list.last; },
    async onBack() {
      return (await catchUp()) === null ? null : list.last - lostAt;
    },
  });
  const slow = every(() => { if (document.visibilityState === "visible") catchUp(); }, SLOW_MS);
  let awake = Date.now();
  every(() => {
    if (Date.now() - awake > SLEPT_MS) woke(); // the machine slept: timers stopped and the socket may be lost
    awake = Date.now();
  }, 1000);
  const woke = () => {
    wake();
    catchUp();
  };
  addEventListener("online", catchUp, { signal: life() }); // `connection.js` wakes the sockets
  addEventListener("pageshow", (event) => { if (event.persisted) woke(); }, { signal: life() });
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") catchUp(); }, { signal: life() });
  return { catchUp, stop: () => clearInterval(slow) };
}
