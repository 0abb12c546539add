// The names of a key event in the map (`key-map.js`): by what was typed, and where a layout has no Latin letter or digit on a key,
// by its place.

const SIGN = /^[!-/:-@[-\u0060{-~]$/; // ASCII without letters and digits
const SIGNS = { BracketLeft: "[", BracketRight: "]", Semicolon: ";", Slash: "/", Period: "." };

/**
 * Return the letter, digit or sign that the place of a key has on a US keyboard, or "".
 * @param {string} [code]
 */
function placeOf(code = "") {
  return /^(?:Key|Digit)(.)$/.exec(code)?.[1].toLowerCase() || SIGNS[code] || "";
}

/**
 * Return whether a sign was typed with the help of Alt: by AltGr, which is Ctrl and Alt on Windows, or by Option on a Mac.
 * Alt with the sign's own key on a US keyboard is a shortcut of the browser or the system.
 * @param {KeyboardEvent} event
 */
export function isByAlt(event) {
  const { key, code, altKey, ctrlKey, metaKey } = event;
  if (!SIGN.test(key) || metaKey) return false;
  if (event.getModifierState?.("AltGraph")) return true;
  return altKey && placeOf(code) !== key && (ctrlKey || /[[\]{}@\\|~#/]/.test(key));
}

/**
 * Return the names of a key event in the map: "Ctrl+Enter", "Shift+N", "?", "Space". Letters are compared without case, so
 * Caps Lock changes nothing. The place of the key counts where a layout has no Latin letter or digit on it, and where
 * it has another sign or an accent in place of a bracket.
 * @param {KeyboardEvent} event
 */
export function namesOf(event) {
  const { key, code, shiftKey } = event;
  if (isByAlt(event)) return [key]; // its place and the keys beside it say nothing more
  const isAscii = /^[!-~]$/.test(key);
  const isNamed = key.length > 1 && key !== "Dead";
  const bases = [isAscii || isNamed ? key : key === " " ? "Space" : placeOf(code) || key];
  // AZERTY has its digits above signs, and German has + where ] is
  if (SIGN.test(key) && !shiftKey && /^(Digit|Bracket)/.test(code)) bases.push(placeOf(code));
  return [...new Set(bases)].map((base) => {
    const isLetter = base.length === 1 && base.toLowerCase() !== base.toUpperCase();
    const isShifted = shiftKey && (isLetter || base.length > 1);
    const cased = !isLetter ? base : isShifted ? base.toUpperCase() : base.toLowerCase();
    return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${isShifted ? "Shift+" : ""}${cased}`;
  });
}
