// Text of agents and strangers that a script puts into a page. As on every page of the server, characters that change the
// direction of a line become codes, so a name can't look like another. Pure.

// as the server's filter `clean`: U+0000, unpaired surrogates, and bidirectional controls
const UNSAFE = /[\0\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/** Return the text with such characters as codes. */
export const visible = (text) =>
  String(text).replace(UNSAFE, (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
