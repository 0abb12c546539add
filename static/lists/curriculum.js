// The page Curriculum: a frame about its run refreshes it in place; keys move through the tasks.

import { bind, print } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";
import { mergeParts } from "../shell/html-merge.js";
import { look as lookAtCharts } from "./charts.js";
import { start as startRows } from "../forms/list-keys.js";
import { announce } from "../shell/toast.js";
import { coalesce } from "../shell/stream.js";

const BREATH_MS = 300;

const run = () => /** @type {HTMLElement | null} */ (document.querySelector("[data-run]"))?.dataset.run;

const look = coalesce(async () => {
  try {
    mergeParts(await fetchFragment(location.pathname + location.search), document);
  } catch {
    return; // the banner reports the lost connection; the next frame retries
  }
  lookAtCharts();
  const news = document.querySelector("h1")?.textContent;
  if (news) announce(news);
  print();
}, BREATH_MS);

startRows();
bind("hold", () => document.getElementById("decision")?.focus());
document.addEventListener("awm:frame", ({ detail }) => {
  if (detail.type === "gap" || (detail.type === "curriculum" && (!run() || detail.run === run()))) look();
});
document.addEventListener("awm:look-again", look);
print();
