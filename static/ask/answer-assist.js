// What helps beside the form: a preview, the model's draft, quick replies, and other asks with the same question.
//
// The page holds no draft: the server sends it when `d` is pressed, and the frame `draft` on the queue's socket announces one.
// Words are inserted at the caret or appended; nothing that a person wrote is replaced.

import { tick } from "../shell/clock.js";
import { bind, print } from "../shell/keys.js";
import { life } from "../shell/page-life.js";
import { fetchFragment } from "../shell/connection.js";
import { parseExact } from "../forms/exact-json.js";
import { insert, page, wordsNow } from "./ask-form.js";
import { sayNear } from "./say-near.js";
import { answered, askFor, variablesOf } from "./reply-variables.js";
import { announce, say } from "../shell/toast.js";
import { walk } from "../shell/arrow-keys.js";

const partOf = (root, name) => root.querySelector(`[data-part="${name}"]`);
const place = (name) => partOf(page, name);

/**
 * Replace the part `name` of `root` by the fresh one; the focus stays on the control with the same action. Take `root` before
 * the request: when the response comes, another ask may be on the page.
 * @param {HTMLElement} root
 * @param {Document} fresh
 * @param {string} name
 */
export function swap(root, fresh, name) {
  const [old, next] = [partOf(root, name), partOf(fresh, name)];
  if (!old || !next) return null;
  const active = /** @type {HTMLElement} */ (document.activeElement);
  const act = old.contains(active) ? active.dataset.act : "";
  old.replaceWith(next);
  if (act) next.querySelector(`[data-act="${act}"]`)?.focus();
  tick();
  print();
  return next;
}

function bodyOf(given) {
  const body = new FormData();
  for (const [name, value] of Object.entries(given)) body.set(name, value);
  return body;
}

// --- a model's draft

let wanted = false; // requested, to be shown when it arrives

async function draft(query = "", body = null) {
  const [root, url] = [page, place("model-draft")?.dataset.url];
  if (!url) return null;
  try {
    const box = swap(root, await fetchFragment(`${url}${query}`, body), "model-draft");
    if (!box || root !== page) return null;
    offerActions(box);
    return box;
  } catch (error) {
    if (root !== page) return null;
    sayNear("[data-problem]", error instanceof TypeError ? "No draft: can't reach the server." : error.message, true);
    return null;
  }
}

/** Offer the keys that the draft's state allows. */
function offerActions(box) {
  const shown = "shown" in box.dataset;
  if (shown) announce(`Model draft: ${box.querySelector("[data-words]").textContent.slice(0, 200)}`);
  print();
}

async function toggle() {
  const box = place("model-draft");
  const { state } = box.dataset;
  if (state === "ready") return "shown" in box.dataset ? useDraft() : draft("?show=1");
  if (!["idle", "writing"].includes(state)) return say(box.textContent.trim().replace(/\s+/g, " "), true);
  wanted = true;
  if (state === "idle") return draft("", bodyOf({}));
  return announce("The draft opens when it is ready.");
}

function useDraft() {
  const box = place("model-draft");
  const words = box?.querySelector("[data-words]");
  if (!words) return false;
  insert(words.textContent, { atEnd: true, calls: parseExact(document.getElementById("draft-calls").textContent), began: words.dataset.key });
  draft(); // closed again: the text now has it
  return true;
}

function redraft() {
  const { state } = place("model-draft")?.dataset || {};
  if (!["ready", "failed"].includes(state)) return false;
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById("hint");
  dialog.querySelector("input").required = state === "ready";
  dialog.showModal();
  return true;
}

function startDraft() {
  if (!place("model-draft")) return;
  bind("draft", toggle);
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-hide-draft]")) draft();
  }, { signal: life() });
  bind("redraft", redraft);
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById("hint");
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = dialog.querySelector("input");
    dialog.close();
    wanted = true;
    draft("", bodyOf({ hint: field.value }));
    field.value = "";
  });
  document.addEventListener("awm:frame", async ({ detail }) => {
    if (detail.type === "gap" || (detail.type === "draft" && detail.ask === page.dataset.ask)) await arrived();
  }, { signal: life() });
}

async function arrived() {
  if ("shown" in (place("model-draft")?.dataset || {})) return;
  const box = await draft();
  if (box?.dataset.state === "ready" && wanted) await draft("?show=1");
  else if (box?.dataset.state === "ready") announce("A model draft is ready. It is hidden.");
  else if (box?.dataset.state === "failed") announce("The model returned no draft.");
  if (box?.dataset.state !== "writing") wanted = false;
}

// --- quick replies

async function replies(path = place("replies").dataset.url, body = null) {
  const root = page;
  const problem = () => place("replies").querySelector("[data-reply-problem]");
  try {
    swap(root, await fetchFragment(path, body), "replies");
    return true;
  } catch (error) {
    const words = error instanceof TypeError ? "Can't reach the server." : error.message;
    if (problem()) [problem().textContent, problem().hidden] = [words, false];
    else place("replies").textContent = words;
    return false;
  }
}

/** Return the text of a quick reply; the button has blanks around it. */
const replyOf = (button) => button.querySelector("[data-text]").textContent;

function changeReply(button) {
  const form = place("replies").querySelector("form[data-reply-form]");
  const text = form.querySelector("textarea");
  form.querySelector('input[name="id"]').value = button.dataset.edit;
  text.value = replyOf(place("replies").querySelector(`[data-reply="${button.dataset.edit}"]`));
  form.querySelector("[data-say]").textContent = "Edit quick reply";
  /** @type {HTMLInputElement} */
  const shared = form.querySelector('input[name="shared"]');
  shared.checked = Boolean(button.closest("li").querySelector("[data-team]"));
  text.focus();
}

/** Return what the page knows of variables: the arguments of the agent's last failed call. */
const knownValues = () => parseExact(document.getElementById("failed-call")?.textContent || "{}").arguments || {};

function startReplies() {
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById("replies");
  if (!dialog) return;
  bind("replies", async () => {
    dialog.showModal();
    await replies();
    (dialog.querySelector("[data-reply]") || dialog.querySelector("textarea"))?.focus();
  });
  walk(dialog, "[data-reply]");
  dialog.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button?.dataset.reply && variablesOf(replyOf(button)).length) {
      askFor(dialog.querySelector("[data-fill]"), replyOf(button), knownValues());
    } else if (button?.dataset.reply) {
      dialog.close();
      insert(replyOf(button));
    } else if (button?.dataset.edit) changeReply(button);
    else if (button?.dataset.drop) replies(button.dataset.drop, bodyOf({})).then(() => dialog.querySelector("[data-reply], textarea")?.focus());
    else if (button && "fromAdvice" in button.dataset) dialog.querySelector("textarea").value = wordsNow().slice(0, 2000);
  });
  dialog.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    if ("fill" in form.dataset) {
      dialog.close();
      return insert(answered(form));
    }
    const shared = form.querySelector('input[name="shared"]:checked') ? { shared: "1" } : {};
    const [id, text] = [form.querySelector('input[name="id"]').value, form.querySelector("textarea").value];
    if (await replies(undefined, bodyOf({ id, text, ...shared }))) dialog.querySelector("[data-reply]")?.focus();
  });
}

// --- other asks with the same question

const ticked = new Map(); // whether a person ticked each ask, and whether it came later and is new to them

/** Restore the person's ticks after the server has drawn the list again. */
export function keepTicks() {
  const boxes = [...document.querySelectorAll('[data-part="same"] input[name="with"]')];
  for (const box of boxes) {
    if (!ticked.has(box.value)) ticked.set(box.value, false);
    box.checked = ticked.get(box.value) && !box.disabled;
  }
  const count = boxes.filter((box) => box.checked).length;
  const send = document.querySelector("[data-send]");
  const words = count ? `Send to ${count + 1} and next` : "Send and next";
  if (send && send.textContent !== words) send.textContent = words;
}

function startSameQuestion() {
  for (const box of document.querySelectorAll('[data-part="same"] input[name="with"]')) ticked.set(box.value, box.checked || box.disabled);
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.name !== "with") return;
    ticked.set(target.value, target.checked);
    keepTicks();
  }, { signal: life() });
  const all = () => /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll('[data-part="same"] input[name="with"]:enabled')]);
  bind("decide-all", () => {
    const on = all().some((box) => !box.checked);
    for (const box of all()) ticked.set(box.value, on);
    keepTicks();
  }, () => all().length > 0);
  keepTicks();
}

// --- the answer as pages show it

const SOON_MS = 300;

function startPreview() {
  const [button, box] = [document.querySelector("[data-preview]"), document.getElementById("preview")];
  let timer = 0;
  const draw = async () => {
    try {
      box.replaceChildren(...(await fetchFragment(button.dataset.preview, bodyOf({ text: wordsNow() }))).body.childNodes);
    } catch (error) {
      box.textContent = error instanceof TypeError ? "No preview: can't reach the server." : error.message;
    }
  };
  button.addEventListener("click", () => {
    box.hidden = !box.hidden;
    button.setAttribute("aria-expanded", String(!box.hidden));
    if (!box.hidden) draw();
  });
  document.getElementById("advice").addEventListener("input", () => {
    clearTimeout(timer);
    if (!box.hidden) timer = setTimeout(draw, SOON_MS);
  });
}

export function startAssist() {
  wanted = false;
  ticked.clear();
  startPreview();
  startDraft();
  startReplies();
  startSameQuestion();
}
