// The ask page: the lease stays ours while we write, the text is saved on this device at every stroke, one press sends once,
// and after sending the page shows what the agent does with it. The deadline is the server's; a form that comes late freezes.

import { clock, serverNow } from "./clock.js";
import { bind, print } from "./keys.js";
import { CallBuilder } from "./schema-form.js";
import { announce } from "./shell.js";
import { keepTrue, lists, startKeys } from "./steps.js";

const RENEW_MS = 25_000;

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

const api = (path, body) => fetch(path, {
  method: "POST",
  credentials: "same-origin",
  headers: { Accept: "application/json", "X-CSRFToken": document.querySelector('meta[name="csrf"]').content },
  body,
});

function startDraft(text, calls, builder) {
  const draft = loadDraft();
  if (draft) {
    if (draft.text && !text.value) text.value = draft.text;
    if (draft.calls?.length) builder.restore(draft.calls);
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

function freeze(words) {
  if (form.dataset.frozen) return;
  form.dataset.frozen = "yes";
  for (const button of form.querySelectorAll("[data-live-only]")) button.hidden = true;
  const box = document.querySelector("[data-ended]");
  box.querySelector("[data-say]").textContent = words;
  box.hidden = false;
  announce(words);
  print();
}

async function send(then) {
  if (form.dataset.sending) return;
  const text = form.elements.text.value.trim();
  if (!text && form.elements.tool_calls.value === "[]") {
    sayNear("[data-problem]", "Write the advice, or add a call.", true);
    form.elements.text.focus();
    return;
  }
  if (form.dataset.problems) return sayNear("[data-problem]", form.dataset.problems, true);
  form.dataset.sending = "yes";
  document.body.setAttribute("aria-busy", "true");
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = true;
  sayNear("[data-problem]", "Sending");
  form.elements.then.value = then;
  try {
    const response = await api(form.action, new FormData(form));
    const answer = await response.json();
    if (response.ok) {
      saveDraft(null);
      location.assign(answer.next);
      return;
    }
    refused(answer.error || { code: "error", message: `The server said ${response.status}.` });
  } catch {
    sayNear("[data-problem]", "Not sent: no contact with the server. Your text is safe here; send again when the connection is back.", true);
  }
  delete form.dataset.sending;
  document.body.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = false;
}

function refused(error) {
  if (error.code === "too_late") {
    saveDraft(null); // the server keeps it beside the ask, where the page shows it
    location.reload();
  } else sayNear("[data-problem]", error.message, true);
}

function startLease(chip) {
  let until = Date.parse(chip.dataset.until);
  let lostContact = false;
  let lapsed = false;
  const renew = async () => {
    if (form.dataset.frozen || form.dataset.sending) return;
    try {
      const response = await api(chip.dataset.renew, new FormData(form));
      const answer = await response.json();
      lostContact = false;
      if (response.ok) until = Date.parse(answer.lease_until);
      else if (answer.error?.code === "too_late") freeze("This ask is closed. Your text is still here.");
      else lapsed = true;
    } catch {
      lostContact = true;
    }
  };
  const say = () => {
    if (form.dataset.frozen) chip.hidden = true;
    const left = (until - serverNow()) / 1000;
    const words = chip.querySelector("[data-say]");
    const over = lapsed || left <= 0;
    words.textContent = over
      ? "Open again, your text is safe"
      : lostContact ? `No contact, yours for ${Math.round(left)} s more` : `Yours, renews in ${clock(Math.max(0, nextAt - Date.now()) / 1000)}`;
    chip.classList.toggle("ask", !over && !lostContact);
    chip.classList.toggle("bad", over || lostContact);
  };
  let nextAt = Date.now() + RENEW_MS;
  setInterval(() => {
    if (Date.now() >= nextAt) {
      nextAt = Date.now() + (lostContact ? 5000 : RENEW_MS);
      renew();
    }
    say();
  }, 500);
  addEventListener("online", renew);
}

function startForm() {
  const [text, calls] = [form.elements.text, form.elements.tool_calls];
  const tools = JSON.parse(document.getElementById("tools-data")?.textContent || "[]");
  let save = () => {};
  const builder = new CallBuilder(document.querySelector("[data-calls]"), tools, (made, problems) => {
    calls.value = JSON.stringify(made);
    form.dataset.problems = problems[0] || "";
    document.querySelector("[data-calls]").hidden = made.length === 0;
    save();
  });
  save = startDraft(text, calls, builder);
  const picker = document.querySelector("[data-pick-tool]");
  picker?.addEventListener("change", () => {
    const card = builder.add(picker.value);
    picker.value = "";
    card?.querySelector("[data-argument]")?.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.submitter?.value || "next");
  });
  bind("send", () => send("next"));
  bind("send-watch", () => send("watch"));
  bind("insert-call", () => picker ? picker.focus() : false);
  bind("write", () => text.focus());
  bind("leave", leave);
  bind("keep", () => form.dataset.frozen ? send("watch") : false);
  bind("discard", () => form.dataset.frozen ? discard() : false);
  document.querySelector("[data-keep]")?.addEventListener("click", () => send("watch"));
  document.querySelector("[data-discard]")?.addEventListener("click", discard);
  startLease(document.querySelector("[data-lease]"));
}

function discard() {
  saveDraft(null);
  location.assign("/queue/");
}

function leave() {
  const inside = document.activeElement?.closest("input, textarea, select");
  if (inside) return inside.blur();
  if (form.dataset.frozen) return false;
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
  keepTrue(list, page.dataset.socket, {
    heard(frame) { if (frame.type === "ask" && frame.ask === page.dataset.ask) heard(frame); },
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
