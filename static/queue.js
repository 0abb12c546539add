// Home, queue and episode list: frames of the queue only say that something changed; the page fetches itself and merges.

import { tick } from "./clock.js";
import { print } from "./keys.js";
import { fetchFragment, mergeParts } from "./merge.js";
import { start as startRows } from "./rows.js";
import { coalesce } from "./stream.js";

const SLOW_MS = 20_000;
const PAUSE_MS = 300;

const refresh = coalesce(async () => {
  try {
    mergeParts(await fetchFragment(location.href));
  } catch {
    return; // the banner speaks of the lost connection; the next frame or the slow timer tries again
  }
  tick();
  print();
});

// what an agent does next may wait a moment, what a person must know may not
let later = null;
function hear(event) {
  if (event.detail?.type !== "episode") {
    refresh();
  } else {
    later ??= setTimeout(() => { later = null; refresh(); }, PAUSE_MS);
  }
}

startRows();
print();
document.addEventListener("awm:frame", hear);
document.addEventListener("awm:deadline", () => setTimeout(refresh, 500));
setInterval(refresh, SLOW_MS);
