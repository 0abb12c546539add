// Arrow keys, j and k in a list of a dialog.

/**
 * Return the index that a key moves the focus to from `at` of `count`; -1 if neither applies.
 * @param {string} key
 * @param {number} at
 * @param {number} count
 */
export function stepped(key, at, count) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[key];
  return step && at >= 0 ? (at + step + count) % count : -1;
}

/**
 * Move the focus through the items of a dialog with the arrow keys, j and k.
 * @param {HTMLElement} dialog
 * @param {string} selector
 */
export function walk(dialog, selector) {
  dialog.addEventListener("keydown", (event) => {
    const all = [...dialog.querySelectorAll(selector)].filter((one) => !one.closest("[inert]"));
    const to = stepped(event.key, all.indexOf(/** @type {HTMLElement} */ (document.activeElement)), all.length);
    if (to < 0) return;
    event.preventDefault();
    all[to].focus();
  });
}
