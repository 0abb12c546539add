// A list under the arrow keys.

/**
 * Where the focus goes from place `at` of `count` by a key; -1 where the key or the place says nothing.
 * @param {string} key
 * @param {number} at
 * @param {number} count
 */
export function stepped(key, at, count) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[key];
  return step && at >= 0 ? (at + step + count) % count : -1;
}

/**
 * Arrow keys walk through what can be taken in a dialog.
 * @param {HTMLElement} dialog
 * @param {string} selector
 */
export function walk(dialog, selector) {
  dialog.addEventListener("keydown", (event) => {
    const all = [...dialog.querySelectorAll(selector)];
    const to = stepped(event.key, all.indexOf(/** @type {HTMLElement} */ (document.activeElement)), all.length);
    if (to < 0) return;
    event.preventDefault();
    all[to].focus();
  });
}
