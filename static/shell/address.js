// Addresses that scripts build by hand: below the project of the page, which `data-base` of the body names.

/**
 * Return the address of a page, a call or a socket of this page's project.
 * @param {string} path without a slash at its start
 */
export const inProject = (path) => `${document.body.dataset.base || "/"}${path}`;

/** Return whether the ask is shown beside the list of the queue. */
export const isBeside = () => Boolean(globalThis.document?.getElementById("list"));

/** Show the item again as it is now: load the page, or only the pane beside a list. */
export function showAgain() {
  if (isBeside()) document.dispatchEvent(new Event("awm:look-ask"));
  else location.reload();
}
