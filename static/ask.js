// The ask page: the lease stays ours while we write, the text is saved on this device at every stroke, one press sends once,
// and after sending the page shows what the agent does with it. The deadline is the server's; a form that comes late freezes.

import { clock, serverNow } from "./clock.js";
import { bind, print, unbind } from "./keys.js";
import { NO_CONTACT, isOut, outWords, post } from "./post.js";
import { CallBuilder, chosen } from "./schema-form.js";
import { announce, whenRefused } from "./shell.js";
import { keepTrue, lists, startKeys } from "./steps.js";

const RENEW_MS = 25_000;
const QUIET_MS = 700;

const page = document.querySelector("[data-ask]");
const form = document.querySelector("form[data-answer]");
const draftKey = `awmweb-draft-${page.dataset.ask}`;
const spoken = new Set();

function loadDraft() {
  try {
    return JSON.parse(localStorage.getItem(draftKey) || "null");
  } catch {
    return null; // closed storage or a broken draft: start with what the server sent
  }
}

function saveDraft(draft) {
  try {
    if (draft) localStorage.setItem(draftKey, JSON.stringify(draft));
    else localStorage.removeItem(draftKey);
    return true;
  } catch {
    return false;
  }
}

function sayNear(selector, words, bad = false) {
  const place = document.querySelector(selector);
  if (!place) return;
  place.textContent = words;
  place.classList.toggle("bad", bad);
  place.hidden = !words;
}

const deliver = (path) => post(path, new FormData(form), { token: document.querySelector('meta[name="csrf"]').content });
const isEmpty = () => !form.elements.text.value.trim() && form.elements.tool_calls.value === "[]";

function startDraft(text, calls, builder) {
  const draft = loadDraft();
  if (draft) {
    if (draft.text && !text.value) text.value = draft.text;
    if (draft.calls?.length) builder?.restore(draft.calls);
    if (draft.nonce) form.elements.nonce.value = draft.nonce;
    if (draft.text || draft.calls?.length) sayNear("[data-saved]", "your text from before is back");
  }
  const save = () => {
    const empty = !text.value && calls.value === "[]";
    const kept = saveDraft(empty ? null : { text: text.value, calls: JSON.parse(calls.value), nonce: form.elements.nonce.value });
    if (!empty) sayNear("[data-saved]", kept ? `saved ${new Date(serverNow()).toLocaleTimeString("en-GB")}` : "cannot save on this device", !kept);
  };
  text.addEventListener("input", save);
  return save;
}

/** The ask is over for this form. `out`: for this person altogether, so nothing is left but to copy the text. */
function freeze(words, { out = false } = {}) {
  if (form.dataset.frozen) return;
  if (!out && isEmpty()) return void setTimeout(() => location.reload(), 500); // nothing to keep: show what became of it
  form.dataset.frozen = "yes";
  for (const [kind, gone] of [["live", true], ["late", out], ["out", !out]]) {
    for (const one of form.querySelectorAll(`[data-${kind}-only]`)) one.hidden = gone;
  }
  for (const id of ["send", "send-watch", "insert-call", "leave"]) unbind(id);
  if (!out) {
    bind("keep", () => isQuiet() && send("watch"));
    bind("discard", () => isQuiet() && discard());
  }
  sayNear("[data-problem]", "");
  document.getElementById("pass")?.close();
  const box = document.querySelector("[data-ended]");
  box.querySelector("[data-say]").textContent = words;
  box.hidden = false;
  box.focus();
  announce(words);
  print();
}

// the rest of a word that was being typed when the deadline came decides nothing
let [pressedAt, pressedBefore] = [0, 0];
addEventListener("keydown", () => { [pressedBefore, pressedAt] = [pressedAt, performance.now()]; }, true);
const isQuiet = () => pressedAt - pressedBefore > QUIET_MS;

async function send(then) {
  if (form.dataset.sending) return;
  if (isEmpty()) {
    sayNear("[data-problem]", document.querySelector("[data-calls]") ? "Write the advice, or add a call." : "Write the advice.", true);
    form.elements.text.focus();
    return;
  }
  if (form.dataset.problems) return sayNear("[data-problem]", form.dataset.problems, true);
  form.dataset.sending = "yes";
  document.body.setAttribute("aria-busy", "true");
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = true;
  sayNear("[data-problem]", "Sending");
  form.elements.then.value = then;
  const { ok, answer, error } = await deliver(form.action);
  if (ok) {
    saveDraft(null);
    location.assign(answer.next);
    return;
  }
  delete form.dataset.sending;
  document.body.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = false;
  refused(error);
}

function refused(error) {
  if (error.code === "too_late") {
    saveDraft(null); // the server keeps it beside the ask, where the page shows it
    location.reload();
  } else if (error.code === NO_CONTACT) {
    sayNear("[data-problem]", "Not sent: no contact with the server. Your text is safe here; send again when the connection is back.", true);
  } else if (isOut(error)) cast(error);
  else sayNear("[data-problem]", error.message, true);
}

function cast(error) {
  freeze(`${outWords(error)} Nothing more can be sent from here; your text stays, to be copied.`, { out: true });
}

function startLease(chip) {
  const deadline = Date.parse(document.querySelector("[data-in-hand] [data-deadline]").dataset.deadline);
  let until = Date.parse(chip.dataset.until);
  let trouble = "";
  let lapsed = false;
  const renew = async () => {
    if (form.dataset.frozen || form.dataset.sending) return;
    const { ok, answer, error } = await deliver(chip.dataset.renew);
    trouble = "";
    if (ok) [until, lapsed] = [Date.parse(answer.lease_until), false];
    else if (error.code === "too_late") freeze("This ask is closed. Keep your text as late advice?");
    else if (isOut(error)) cast(error);
    else if (error.code === "lease_lost") lapsed = true;
    else trouble = error.code === NO_CONTACT ? "No contact" : error.message.replace(/\.$/, "");
  };
  const words = (left) => {
    if (lapsed) return "No longer yours, your text is safe";
    if (left <= 0) return "Open again, your text is safe";
    if (trouble) return `${trouble}, yours for ${Math.round(left)} s more`;
    return until >= deadline - 500 ? "Yours to the deadline" : `Yours, renews in ${clock(Math.max(0, nextAt - Date.now()) / 1000)}`;
  };
  const say = () => {
    if (form.dataset.frozen) chip.hidden = true;
    const left = (until - serverNow()) / 1000;
    const over = lapsed || left <= 0;
    chip.querySelector("[data-say]").textContent = words(left);
    chip.classList.toggle("ask", !over && !trouble);
    chip.classList.toggle("bad", over || Boolean(trouble));
  };
  let nextAt = Date.now() + RENEW_MS;
  setInterval(() => {
    if (Date.now() >= nextAt) {
      nextAt = Date.now() + (trouble ? 5000 : RENEW_MS);
      renew();
    }
    say();
  }, 500);
  addEventListener("online", renew);
  whenRefused(renew); // the socket was cut off: ask what holds, in words
}

function startCalls(onCalls) {
  const box = document.querySelector("[data-calls]");
  if (!box) return null; // the agent named no tools: there is nothing to suggest
  const tools = JSON.parse(document.getElementById("tools-data").textContent);
  return new CallBuilder(box, tools, (made, problems) => {
    form.elements.tool_calls.value = JSON.stringify(made);
    form.dataset.problems = problems[0] || "";
    box.hidden = made.length === 0;
    onCalls();
  });
}

function startPicker(builder) {
  const picker = document.querySelector("[data-pick-tool]");
  const names = [...builder.tools.keys()];
  const add = () => {
    const { name, words } = chosen(picker.value, names);
    sayNear("[data-pick-problem]", words, true);
    if (!name) return picker.focus();
    picker.value = "";
    builder.add(name).querySelector("[data-argument]")?.focus();
  };
  picker.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) add();
  });
  picker.addEventListener("input", (event) => {
    // a pick from the list is one act; typing goes on until Enter
    if (event.inputType === "insertReplacementText" && names.includes(picker.value)) add();
  });
  document.querySelector("[data-add-call]").addEventListener("click", add);
  bind("insert-call", () => picker.focus());
}

function startForm() {
  const text = form.elements.text;
  let save = () => {};
  const builder = startCalls(() => save());
  save = startDraft(text, form.elements.tool_calls, builder);
  if (builder) startPicker(builder);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.submitter?.value || "next");
  });
  form.addEventListener("keydown", (event) => {
    const plain = event.key === "Enter" && !event.ctrlKey && !event.metaKey;
    if (plain && event.target.matches("input, select")) event.preventDefault(); // only Ctrl+Enter and the buttons send
    if (event.key === "Escape" && form.dataset.frozen) document.querySelector("[data-ended]").focus();
  });
  bind("send", () => send("next"));
  bind("send-watch", () => send("watch"));
  bind("write", () => text.focus());
  bind("leave", leave);
  document.querySelector("[data-keep]").addEventListener("click", () => send("watch"));
  document.querySelector("[data-discard]").addEventListener("click", discard);
  startLease(document.querySelector("[data-lease]"));
  if (matchMedia("(pointer: fine)").matches) text.focus({ preventScroll: true });
}

function discard() {
  saveDraft(null);
  location.assign("/queue/");
}

function leave() {
  const inside = document.activeElement?.closest("input, textarea, select");
  if (inside) return inside.blur();
  return document.querySelector('[data-release]')?.click();
}

function speakCountdown() {
  const timer = document.querySelector("[data-in-hand] [data-deadline]") || document.querySelector(".cd.big[data-deadline]");
  if (!timer) return;
  const left = Math.round((Date.parse(timer.dataset.deadline) - serverNow()) / 1000);
  for (const mark of [60, 30, 10]) {
    if (left <= mark && left > mark - 3 && !spoken.has(mark)) {
      spoken.add(mark);
      announce(`${mark} seconds left`);
    }
  }
}

function startLists() {
  const all = lists({
    onNew: (from, to) => { if (page.dataset.status === "answered") announce(`The agent acted: step ${to}`); },
  });
  const list = all.at(-1);
  if (!list) return;
  startKeys(list, { next: "context-down", before: "context-up", open: "open-all" });
  let early = true;
  keepTrue(list, page.dataset.socket, {
    heard(frame) {
      if (early) list.refresh().catch(() => {}); // what happened between the page and its socket; the slow timer asks again
      early = false;
      if (frame.type === "ask" && frame.ask === page.dataset.ask) heard(frame);
    },
  });
  if (page.dataset.status === "open") list.goTo(list.last);
  else {
    all[0].goTo(all[0].last);
    if (!document.querySelector('[data-live-now="yes"]')) list.goTo(list.first, "start");
    else list.follow();
  }
}

function heard(frame) {
  if (frame.status === "open") {
    if (!form && page.dataset.status === "open" && (frame.held_by || "") !== page.dataset.heldBy) location.reload();
    return;
  }
  if (form && !form.dataset.sending) {
    const what = { answered: "Somebody else answered this ask", fell_back: "This ask fell back at its deadline", cancelled: "The episode ended before an answer" };
    freeze(`${what[frame.status] || "This ask is closed"}. Keep your text as late advice?`);
  } else if (!form && page.dataset.status === "open") location.reload();
}

if (form) {
  startForm();
  document.addEventListener("awm:deadline", (event) => {
    if (event.target.closest("[data-in-hand]")) freeze("The deadline has passed and the agent went on without advice. Keep your text as late advice?");
  });
} else if (page.dataset.status !== "open") saveDraft(null);
setInterval(speakCountdown, 1000);
startLists();
print();
