// What the line beside a form says of its text: where it is saved.

import { serverNow, timeIn } from "../shell/clock.js";

/**
 * Words of the line beside the form by state, and whether they are bad news.
 * @type {Record<string, (detail?: string) => [string, boolean]>}
 */
export const SAID = {
  saving: () => ["saving", false],
  saved: (at) => [`saved ${timeIn(new Date(at ? Date.parse(at) : serverNow()))}`, false],
  here: () => ["saved on this device, not on the server yet", true],
  closed: () => ["can't save on this device; saved on the server", true],
  refused: (words) => [words, true],
};
