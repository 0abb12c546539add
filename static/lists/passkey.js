// Forms that ask the browser for a passkey: the answer goes with the form, and a refusal stays on the page.

/**
 * Return why this browser gives no passkey; empty if it can.
 * @param {{secure: boolean, credential: any}} browser
 */
export function obstacle({ secure, credential }) {
  if (!secure) return "Browsers give passkeys only over HTTPS or on localhost.";
  if (!credential?.parseCreationOptionsFromJSON || !credential.prototype?.toJSON) return "This browser is too old for passkeys here. Enter a code.";
  return "";
}

/** @param {HTMLFormElement} form */
async function answered(form) {
  const options = JSON.parse(form.dataset.options || "{}");
  const credential = form.dataset.passkey === "create"
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  return JSON.stringify(/** @type {PublicKeyCredential} */ (credential).toJSON());
}

function refuse(words) {
  const line = document.querySelector("[data-passkey-problem]");
  if (line instanceof HTMLElement) [line.textContent, line.hidden] = [words, false];
}

for (const form of globalThis.document?.querySelectorAll("form[data-passkey]") ?? []) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = obstacle({ secure: globalThis.isSecureContext, credential: globalThis.PublicKeyCredential });
    if (problem) return refuse(problem);
    try {
      /** @type {HTMLInputElement} */ (form.elements.namedItem("credential")).value = await answered(form);
    } catch (error) {
      // a person who closes the browser's own window, and a device without the key, look the same on purpose
      return refuse(error.name === "InvalidStateError" ? "This device has a passkey here already." : "The browser gave no passkey. Try again.");
    }
    form.submit();
  });
}
