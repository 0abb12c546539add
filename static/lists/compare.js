// The page that compares episodes: keys move over the pairs of actions, or over more than two episodes. Enter opens the step.

import { canMoveTo, moveTo, start } from "../forms/list-keys.js";
import { bind } from "../shell/keys.js";

/** Return whether a row is a pair that differs: a row of more than two episodes is one episode. @param {Element} row */
const differs = (row) => row.matches("tr:not(.same)");

bind("differ-after", () => moveTo(1, differs), () => canMoveTo(1, differs));
bind("differ-before", () => moveTo(-1, differs), () => canMoveTo(-1, differs));
start();
