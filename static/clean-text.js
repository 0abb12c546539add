// Texts of agents, tools and other people as a page may show them. Pure.

// lone halves of a pair, U+0000, and every character with Unicode's property Bidi_Control, as on the server
const UNSAFE = /[\0\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/** Characters that break encoding or turn lines around become visible codes: what the server's filter `clean` does. */
export function clean(text) {
  return String(text).replace(UNSAFE, (one) => `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
