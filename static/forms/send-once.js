// Forms that are sent once: another press while the answer is on its way does nothing. The server makes one row of a form, too.

/** @param {HTMLFormElement} form */
export function sendOnce(form) {
  let isSent = false;
  form.addEventListener("submit", (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
  // the form is shown again from the browser's cache
  globalThis.addEventListener?.("pageshow", () => { isSent = false; });
}

for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (globalThis.document?.querySelectorAll("form[data-once]") ?? [])) sendOnce(form);
