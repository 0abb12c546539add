// Text of strangers that a module puts into a page itself. The server does the same with every page it makes: characters
// that turn lines around become codes, or a name could read as another. Pure.

// what the server's filter `clean` shows as codes: U+0000, lone halves of a pair, and what turns lines around
const UNSAFE = /[\0\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/** The text with such characters as codes. */
export const visible = (text) =>
  String(text).replace(UNSAFE, (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
