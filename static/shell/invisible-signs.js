// Signs that draw nothing, and the places where they belong. The same table and rule as `people/text/invisible.py`, which says
// what each line holds; a test holds them together. Pure.

export const NOTHING = "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 2028-2029 2060-2065 206a-206f 2800 3164 fe00-fe0f feff";
export const NOTHING_TOO = "ffa0 fff0-fffb 1bca0-1bca3 1d173-1d17a e0000-e0fff";
export const JOINED = "600-8ff 900-dff f00-fff 1000-109f 1780-18af 1a20-1aaf 1b00-1b7f a980-a9df fb50-fdff fe70-fefc 11000-11fff";
export const UNSPACED = "e00-eff 1000-109f 1780-17ff";
export const VIRAMAS = "94d 9cd a4d acd b4d bcd c4d ccd d4d dca";
export const MONGOLIAN = "1820-18aa";
export const HAN = "3400-4dbf 4e00-9fff f900-faff 20000-3ffff";
export const OF_MONGOLIAN = "180b-180d 180f";
export const OF_HAN = "e0100-e01ef";
export const EMOJI = "a9 ae 203c 2049 2122 2139 2194-21aa 231a-23ff 24c2 25aa-25fe 2600-27bf 2934-2935 2b05-2b55 3030 303d 3297 3299";
export const EMOJI_TOO = "1f000-1faff";
export const FLAGS = "gbeng gbsct gbwls";

/** Return a table as the inside of a character class. @param {string} table */
const classOf = (table) => table.split(" ").map((part) => part.split("-").map((code) => `\\u{${code}}`).join("-")).join("");
/** @param {string} table */
const anyOf = (table) => new RegExp(`^[${classOf(table)}]$`, "u");

export const SIGNS = classOf(`${NOTHING} ${NOTHING_TOO}`);
const [joined, unspaced, virama, emoji] = [JOINED, UNSPACED, VIRAMAS, `${EMOJI} ${EMOJI_TOO}`].map(anyOf);
const [mongolian, han, ofMongolian, ofHan] = [MONGOLIAN, HAN, OF_MONGOLIAN, OF_HAN].map(anyOf);
const ENDS_A_WORD = /^[\p{L}\p{M}\p{N}\p{P}]$/u;
const LETTER = /^[\p{L}\p{M}]$/u;
const flags = FLAGS.split(" ").map((word) => `\u{1f3f4}${[...word].map((one) => String.fromCodePoint(0xe0000 + one.codePointAt(0))).join("")}\u{e007f}`);

/** @param {RegExp} script @param {string} sign */
const isLetter = (script, sign) => script.test(sign) && LETTER.test(sign);
/** Return the last characters of a text before a place, the nearest last. @param {string} text @param {number} place */
const before = (text, place) => ["", "", ...text.slice(Math.max(0, place - 4), place)].slice(-2);

/**
 * Return whether the sign of `SIGNS` at a place (in UTF-16 units) is a part of the word or the emoji around it.
 * @param {string} text
 * @param {number} place
 */
export function belongs(text, place) {
  const sign = String.fromCodePoint(text.codePointAt(place));
  const next = text.codePointAt(place + sign.length);
  const after = next === undefined ? "" : String.fromCodePoint(next);
  const [further, last] = before(text, place);
  if (sign === "\u200c" || sign === "\u200d") {
    const ofWord = isLetter(joined, last) && (isLetter(joined, after) || virama.test(last));
    const ofSuffix = sign === "\u200c" && ENDS_A_WORD.test(last) && isLetter(joined, after);
    return ofWord || ofSuffix || (sign === "\u200d" && emoji.test(after) && emoji.test(/^[\ufe0e\ufe0f]$/.test(last) ? further : last));
  }
  if (sign === "\u200b") return isLetter(unspaced, last) && isLetter(unspaced, after);
  if (sign === "\ufe0e" || sign === "\ufe0f") return emoji.test(last) || (after === "\u20e3" && /^[0-9#*]$/.test(last));
  if ((mongolian.test(last) && ofMongolian.test(sign)) || (han.test(last) && ofHan.test(sign))) return true;
  return flags.some((flag) => [1, 2, 3, 4, 5, 6].some((part) => place >= 2 * part && text.startsWith(flag, place - 2 * part)));
}
