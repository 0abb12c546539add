// The claim of an ask that was only looked at, beside the queue: the press that begins an answer makes it.

import { inProject } from "../shell/address.js";
import { post } from "../shell/post.js";

/**
 * Return whether an ask is only looked at: no one has claimed it.
 * @param {HTMLElement | null} page
 */
export const isLooked = (page) => Boolean(page?.dataset.looks);

/**
 * Claim the ask of a page and give its forms the lease; return why not, or "". A page that was left meanwhile lets it go again.
 * @param {HTMLElement} page
 */
export async function claimLooked(page) {
  const { ok, answer, error } = await post(page.dataset.looks, new FormData());
  if (!ok) return error.message;
  if (!page.isConnected) await post(inProject(`queue/${page.dataset.ask}/release`), new URLSearchParams({ lease_token: answer.token }));
  delete page.dataset.looks;
  for (const token of /** @type {NodeListOf<HTMLInputElement>} */ (page.querySelectorAll('input[name="lease_token"]'))) token.value = answer.token;
  page.querySelector("[data-unclaimed]")?.remove();
  /** @type {HTMLElement} */
  const chip = page.querySelector("[data-lease]");
  Object.assign(chip, { hidden: false }).dataset.until = answer.until;
  return "";
}
