// Addresses that scripts build by hand: below the project of the page, which `data-base` of the body names.

/**
 * Return the address of a page, a call or a socket of this page's project.
 * @param {string} path without a slash at its start
 */
export const inProject = (path) => `${document.body.dataset.base || "/"}${path}`;
