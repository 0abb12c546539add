// Text of strangers that a module puts into a page itself. The server does the same with every page it makes: characters
// that turn lines around become codes, or a name could read as another.

const TURNS = /[\0\u202a-\u202e\u2066-\u2069]/g;

/** The text with such characters as codes. */
export const visible = (text) =>
  String(text).replace(TURNS, (char) => `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
