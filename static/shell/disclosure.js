// What is rarely wanted, behind one button where the screen is small.

/**
 * Let each `[data-more]` button show and hide what it controls; what was hidden gets the focus.
 * @param {Document | Element} [root]
 */
export function startMore(root = document) {
  for (const button of root.querySelectorAll("[data-more]")) button.addEventListener("click", () => toggle(button));
}

function toggle(button) {
  const open = button.getAttribute("aria-expanded") !== "true";
  const part = document.getElementById(button.getAttribute("aria-controls"));
  button.setAttribute("aria-expanded", String(open));
  part.classList.toggle("open", open);
  if (open) part.querySelector("button, select, input")?.focus();
}
