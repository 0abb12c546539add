// Writes the tables of keys into docs/keys.md from the map: `node tools/keys.mjs`. `tests/static/keys.test.mjs` fails while
// the page differs from it.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { KEYS } from "../static/shell/key-map.js";
import { capsOf } from "../static/shell/keys.js";

export const PAGE = new URL("../docs/keys.md", import.meta.url);

const spelled = (key) => `\`${capsOf(key).join(" ")}\``;
const row = ({ keys, words, page, id, when }) => (
  `| ${keys.map(spelled).join(" or ")} | ${when ? `${words}, ${when}` : words} | ${id === "leave" ? "every field" : page === "*" ? "every page" : page.split(" ").join(", ")} |`);

/**
 * Return a page with the table of keys between its markers.
 * @param {string} text
 */
export function written(text) {
  const table = ["| key | command | pages |", "|---|---|---|", ...KEYS.map(row)].join("\n");
  return text.replace(/(<!-- keys -->\n)[^]*?(\n<!-- end -->)/, (_, begin, end) => begin + table + end);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) writeFileSync(PAGE, written(readFileSync(PAGE, "utf8")));
