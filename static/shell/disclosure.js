// Controls that small screens hide behind one button.

/**
 * Let each `[data-more]` button show and hide what it controls; the focus moves to what was hidden.
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
