// Files of an answer: picked, pasted or dropped. Each is sent to the server immediately and kept there beside the draft, so a reload
// has it again; it goes to the agent with the answer.

import { inProject } from "../shell/address.js";
import { parseExact } from "../forms/exact-json.js";
import { NO_CONTACT, post } from "../shell/post.js";
import { announce } from "../shell/toast.js";
import { visible } from "../shell/visible-text.js";

/** @typedef {{id: string, name: string, media_type: string, size: number}} Stored */

/** @param {number} bytes */
const inWords = (bytes) => (bytes < 1024 ? `${bytes} bytes` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`);

/** Return whether a file of the answer is still on its way. */
export const isUploading = (form) => Boolean(form.querySelector("[data-files] [aria-busy]"));

/**
 * Bind the files of an answer's form.
 * @param {HTMLFormElement} form
 * @param {string} ask
 */
export function startAttachments(form, ask) {
  /** @type {HTMLElement} */
  const box = form.querySelector("[data-attach]");
  if (!box) return; // files of a sent answer stay as they are
  const [list, picker, problem] = [box.querySelector("[data-files]"), box.querySelector("input"), box.querySelector("[data-file-problem]")];

  function say(words) {
    problem.textContent = visible(words);
    problem.hidden = !words;
  }

  /** @param {HTMLElement} row */
  function drop(row) {
    row.remove();
    list.hidden = !list.children.length;
  }

  /** @param {string} name */
  function addRow(name) {
    const row = document.createElement("li");
    row.append(Object.assign(document.createElement("span"), { textContent: visible(name), className: "words" }));
    list.append(row);
    list.hidden = false;
    return row;
  }

  /**
   * @param {HTMLElement} row
   * @param {Stored} file
   */
  function fill(row, file) {
    const [where, name] = [inProject(`api/v1/attachments/${file.id}`), visible(file.name)];
    const link = Object.assign(document.createElement("a"), { href: where, download: name, textContent: name });
    const size = Object.assign(document.createElement("small"), { textContent: inWords(file.size) });
    const remove = Object.assign(document.createElement("button"), { type: "button", className: "btn sm quiet", textContent: "Remove" });
    remove.setAttribute("aria-label", `Remove ${name}`);
    remove.addEventListener("click", () => takeAway(row, where));
    row.dataset.file = file.id;
    const parts = [link, size, remove];
    if (file.media_type.startsWith("image/")) parts.unshift(Object.assign(document.createElement("img"), { src: where, alt: name }));
    row.replaceChildren(...parts);
  }

  async function takeAway(row, where) {
    say("");
    const { ok, error } = await post(where, undefined, { method: "DELETE" });
    if (!ok && error.code !== "not_found") return say(error.message);
    drop(row);
    box.querySelector("button").focus();
  }

  /** @param {File} file */
  async function send(file) {
    if (file.size > Number(box.dataset.most)) return say(`${file.name}: A file can have at most 5 MB.`);
    const row = addRow(file.name);
    row.setAttribute("aria-busy", "true");
    row.append(Object.assign(document.createElement("progress"), { ariaLabel: "Uploading" }));
    const where = inProject(`api/v1/asks/${ask}/attachments?name=${encodeURIComponent(file.name)}`);
    const { ok, answer, error } = await post(where, file, { headers: { "Content-Type": "application/octet-stream" } });
    row.removeAttribute("aria-busy");
    if (!ok) {
      drop(row);
      return say(`${file.name}: ${error.code === NO_CONTACT ? "Not attached, can't reach the server." : error.message}`);
    }
    if (list.querySelector(`[data-file="${answer.id}"]`)) return drop(row); // the same file again
    fill(row, answer);
    return announce(`${answer.name} attached`);
  }

  /** One after the other, so that their order stays. */
  async function sendAll(files) {
    say("");
    for (const file of files) await send(file);
  }

  for (const file of parseExact(document.getElementById("my-files").textContent)) fill(addRow(file.name), file);
  box.querySelector("[data-pick-files]").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    const files = [...picker.files];
    picker.value = ""; // the same file can be picked again after it was removed
    sendAll(files);
  });
  form.addEventListener("paste", ({ clipboardData }) => {
    // programs of an office add a picture of the text that is pasted
    if (clipboardData.types.includes("text/plain")) return;
    sendAll([...clipboardData.files]);
  });
  form.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    box.classList.add("over");
  });
  form.addEventListener("dragleave", () => box.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    box.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    sendAll([...event.dataTransfer.files]);
  });
}
