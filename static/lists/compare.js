// The page that compares episodes: keys move over the pairs of actions, or over more than two episodes. Enter opens the step.

import { moveTo, start } from "../forms/list-keys.js";
import { bind } from "../shell/keys.js";

/** @param {Element} row */
const differs = (row) => !row.classList.contains("same");

bind("differ-after", () => moveTo(1, differs));
bind("differ-before", () => moveTo(-1, differs));
start();
