// Home, queue and episode list: a frame of the queue that changes more than a row makes the page fetch itself and merge.
// The steps of live episodes are drawn from the frames alone, by wall.js.

import { tick } from "./clock.js";
import { print } from "./keys.js";
import { fetchFragment, mergeParts } from "./merge.js";
import { start as startRows } from "./rows.js";
import { coalesce } from "./stream.js";

const SLOW_MS = 20_000;
const PAUSE_MS = 1000;

const states = new Map(); // the last state of each episode that was heard of

/** Whether a frame changes what only the server can draw. */
export function matters(frame, known = states) {
  if (frame.type === "presence") return false;
  if (frame.type !== "episode") return true;
  const before = known.get(frame.episode);
  known.set(frame.episode, frame.state);
  return before !== frame.state;
}

const refresh = coalesce(async () => {
  try {
    const here = new URL(location.href);
    here.searchParams.set("wall", "0"); // the wall keeps itself
    mergeParts(await fetchFragment(here));
  } catch {
    return; // the banner speaks of the lost connection; the next frame or the slow timer tries again
  }
  document.dispatchEvent(new Event("awm:rows"));
  tick();
  print();
});

// what an agent does next may wait a moment, what a person must know may not
let later = null;
function hear(frame) {
  if (!matters(frame)) return;
  if (frame.type !== "episode") refresh();
  else later ??= setTimeout(() => { later = null; refresh(); }, PAUSE_MS);
}

function start() {
  for (const row of document.querySelectorAll("tr[data-episode]")) states.set(row.dataset.episode, row.dataset.state);
  startRows();
  print();
  document.addEventListener("awm:frame", ({ detail }) => hear(detail));
  document.addEventListener("awm:deadline", () => setTimeout(refresh, 500));
  setInterval(() => { if (document.visibilityState === "visible") refresh(); }, SLOW_MS);
}

if (typeof document !== "undefined") start();
