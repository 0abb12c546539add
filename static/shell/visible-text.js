// Text of agents and strangers that a script puts into a page. As on every page of the server, characters that change the
// direction of a line or draw nothing become codes, so a text can't look like another. Pure.

import { SIGNS, belongs } from "./invisible-signs.js";

// as the server's filter `clean`: control characters but tabs and line ends, unpaired surrogates, bidirectional controls
const UNSAFE = /[^\P{Cc}\t\n\r]|[\u202a-\u202e\u2066-\u2069]|\p{Cs}/u;
const DRAWN = new RegExp(`${UNSAFE.source}|([${SIGNS}])`, "gu");
const NAMES = ("NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US").split(" ");

/** @param {number} code */
const nameOf = (code) => NAMES[code] || (code === 0x7f ? "DEL" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`);

/** Return the text with such characters as names or codes. */
export const visible = (text) => String(text).replace(DRAWN, (char, sign, place, whole) => (sign && belongs(whole, place) ? char : `⟨${nameOf(char.codePointAt(0))}⟩`));
