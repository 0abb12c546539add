// What every page has: clock, keys, tabs, menus, dialogs, presence, and the queue's socket with the bell.
//
// Frames of the queue are dispatched as "awm:frame" on document; a page that needs another socket calls `watch` of
// `connection.js`. The badge and the title count the asks that people can claim. A visible page reports presence every 45 s.

import { start as startClock, clock, localiseAll, serverNow, tick, timeOf } from "./clock.js";
import "./notice-relay.js";
import { bind, print, start as startKeys } from "./keys.js";
import { startPalette } from "./command-palette.js";
import { startConnection, watch, whenRefused } from "./connection.js";
import { startOpened } from "./opened.js";
import "./refused.js";
import { counted, grouped } from "./numbers.js";
import { post } from "./post.js";
import { chime, startSound } from "./sound.js";
import { announce, say } from "./toast.js";
import { startSent } from "./delivery-toast.js";
import { startHeld } from "./held-toast.js";

const byId = (id) => document.getElementById(id);
const title = typeof document === "undefined" ? "" : document.title;

/** Return what open asks are to this person: unclaimed, if they could claim one. */
const wordOf = (bell) => bell?.dataset.word || "open";

/**
 * Show the number of open asks and the nearest deadline in the bell and in the title.
 * @param {number} count
 * @param {string} nearest
 */
export function ring(count, nearest) {
  const bell = byId("bell");
  if (!bell) return;
  const before = Number(bell.dataset.open || 0);
  bell.dataset.open = String(count);
  bell.classList.toggle("calm", !count);
  const template = document.createElement("template");
  const icon = `<svg class="g ${count ? "" : "idle"}" aria-hidden="true"><use href="#a-open"/></svg>`;
  template.innerHTML = count
    ? `${icon}<span>${grouped(count)} <span class="word"></span><span class="long"> · next due in</span></span><b data-bare data-budget="300"><span data-left></span></b>`
    : `${icon}<span>0 <span class="word"></span></span>`;
  template.content.querySelector(".word").textContent = wordOf(bell);
  const left = template.content.querySelector("b");
  if (left && nearest) left.dataset.deadline = nearest;
  else left?.remove();
  bell.replaceChildren(template.content);
  tick(bell);
  if (count > before) chime();
  if (count > before) announce(`${counted(count - before, "new ask,new asks")}${nearest ? `, next due in ${clock((Date.parse(nearest) - serverNow()) / 1000)}` : ""}`);
}

const open = new Map();
const beyond = { count: 0, left: new Set() }; // asks that no frame has named: their number, and which of them left since
let rung = "";

/** Return the asks that people can claim now: before their deadline and not claimed. */
export function ripe(asks, now) {
  return new Map([...asks].filter(([, ask]) => Date.parse(ask.deadline) > now && !(Date.parse(ask.until) > now)));
}

function ringNow() {
  const left = ripe(open, serverNow());
  const count = left.size + beyond.count;
  const state = `${count} ${nearestOf(left)}`;
  if (state !== rung) ring(count, nearestOf(left));
  rung = state;
}


const leftOut = new Set(); // declined by this person

/** Return what this person can claim; null of one who only looks. */
function takes() {
  const own = typeof document === "undefined" ? undefined : byId("bell")?.dataset;
  return own?.skills === undefined ? null : { skills: own.skills.split("\n"), every_tier: "everyTier" in own, key: own.person, role: own.role };
}

/**
 * Return whether a person with these skills can claim an ask; one that needs several people, if they have not decided it.
 * @param {{tier?: string, skills?: string[], role?: string, decided?: string[]}} ask
 * @param {{skills: string[], every_tier: boolean, key?: string, role?: string} | null} who
 */
export const canTake = ({ tier, skills = [], role = "", decided = [] }, who) => !who || (skills.every((skill) => who.skills.includes(skill))
  && (tier !== "senior" || who.every_tier) && (!role || role === who.role) && !decided.includes(who.key || ""));

/** Count an ask no more that this person has declined. */
function declined({ detail }) {
  leftOut.add(detail.ask);
  open.delete(detail.ask);
  ringNow();
}

const MODELS_TIERS = new Set(["llm", "cache"]);

/**
 * Note the asks for people from a frame; return whether they changed. The first frame of a long queue names the nearest and
 * counts the rest in `more`; one of those leaves the count when a frame first says that it was claimed or closed.
 */
export function noteAsk(frame, asks = open, rest = beyond) {
  if (frame.type === "queue") {
    asks.clear();
    leftOut.clear();
    for (const id of frame.declined || []) leftOut.add(id);
    for (const ask of frame.asks) keep(asks, ask.id, ask);
    Object.assign(rest, { count: frame.more || 0, left: new Set() });
    return true;
  }
  if (frame.type === "lease" && asks.has(frame.ask)) asks.get(frame.ask).until = frame.lease_until;
  if (frame.type !== "ask") return false;
  const had = JSON.stringify([asks.get(frame.ask), rest.count]);
  if (rest.count && !MODELS_TIERS.has(frame.tier)) {
    const stays = frame.status === "open" && !frame.held_by;
    if (!stays && !asks.has(frame.ask) && !rest.left.has(frame.ask)) rest.count -= 1;
    rest.left.add(frame.ask);
  }
  asks.delete(frame.ask);
  if (frame.status === "open") keep(asks, frame.ask, frame);
  return had !== JSON.stringify([asks.get(frame.ask), rest.count]);
}

function keep(asks, id, { tier, skills, role, decided, deadline_at: deadline, lease_until: until = null }) {
  if (!MODELS_TIERS.has(tier) && !leftOut.has(id) && canTake({ tier, skills, role, decided }, takes())) asks.set(id, { deadline, until });
}

/** Return the nearest deadline, or null. */
export function nearestOf(asks) {
  const all = [...asks.values()].map((ask) => ask.deadline).sort((a, b) => Date.parse(a) - Date.parse(b));
  return all[0] || null;
}

function titleTick() {
  if (rung) ringNow();
  const bell = byId("bell");
  const open = Number(bell?.dataset.open || 0);
  const deadline = bell?.querySelector("[data-deadline]")?.dataset.deadline;
  const left = deadline ? ` (${clock((Date.parse(deadline) - serverNow()) / 1000)})` : "";
  const base = document.body.dataset.title || title;
  const want = open ? `${grouped(open)} ${wordOf(bell)}${left}, ${base}` : base;
  if (document.title !== want) document.title = want;
}

/** Start what the shell does once per page again for content that was swapped in. */
export function renew() {
  startTabs();
  localiseAll();
  tick();
}

/** Bind tabs by the ARIA pattern: arrow keys move, one panel shows. Without this script all panels show. */
function startTabs() {
  for (const list of document.querySelectorAll('[role="tablist"]')) {
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    const show = (tab, focus = true) => {
      for (const one of tabs) {
        one.setAttribute("aria-selected", String(one === tab));
        one.tabIndex = one === tab ? 0 : -1;
        const panel = byId(one.getAttribute("aria-controls"));
        if (panel) panel.hidden = one !== tab;
      }
      byId(tab.getAttribute("aria-controls"))?.dispatchEvent(new CustomEvent("awm:tab", { bubbles: true }));
      if (focus) tab.focus();
    };
    list.addEventListener("click", (event) => {
      const tab = /** @type {Element} */ (event.target).closest('[role="tab"]');
      if (tab) show(tab);
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = tabs.indexOf(/** @type {HTMLElement} */ (event.target));
      if (!step || at < 0) return;
      event.preventDefault();
      show(tabs[(at + step + tabs.length) % tabs.length]);
    });
    const first = tabs.find((tab) => tab.getAttribute("aria-selected") === "true") || tabs[0];
    if (first) show(first, false);
  }
}

function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(/** @type {Node} */ (event.target))) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
    event.preventDefault();
  }, true);
}

/** Bind buttons that open and close a dialog by its ID. */
function startDialogs() {
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const opener = event.target.closest("[data-opens]");
    if (opener) /** @type {HTMLDialogElement} */ (byId(opener.dataset.opens)).showModal();
    if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
  });
}

const COPIED_MS = 2000;

/** Copy a short text and say so on the button for a moment; without a clipboard, show the text selected. */
async function copyText(button) {
  const { copyText: text } = button.dataset;
  button.dataset.label ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = button.dataset.label; }, COPIED_MS);
  } catch {
    button.textContent = text;
    getSelection().selectAllChildren(button);
  }
}

/** Bind buttons that copy: `data-copy` names the element with the text, `data-copy-text` is the text. */
function startCopies() {
  document.addEventListener("click", async (event) => {
    const short = event.target instanceof Element && event.target.closest("[data-copy-text]");
    if (short) return copyText(short);
    const button = event.target instanceof Element && event.target.closest("[data-copy]");
    if (!button) return;
    const source = /** @type {HTMLInputElement} */ (byId(button.dataset.copy));
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      button.textContent = "Copied";
    } catch {
      if (source.select) source.select();
      else getSelection().selectAllChildren(source); // plain HTTP has no clipboard: select it, and the person presses the keys
      button.textContent = "Selected, press Ctrl C";
    }
  });
}

const BEAT_MS = 45_000;
const duties = () => [...document.querySelectorAll("form[data-duty]")];

/**
 * Show Available or Away in every switch, and until when.
 * @param {boolean} away
 * @param {string} [until]
 */
function showDuty(away, until = "") {
  const end = away && until ? [" until ", timeOf(until, "clock")] : [];
  for (const form of duties()) {
    const button = form.querySelector("button");
    button.value = away ? "0" : "1";
    button.title = away ? "Away: you don't count as online and get no notifications. Click to become available." : "Available. Click to set yourself to Away.";
    form.querySelector(".dot").classList.toggle("off", away);
    form.querySelector("[data-say]").replaceChildren(away ? "Away" : "Available", ...end);
  }
}

/** Report presence while the page is visible; with `away`, set Available or Away. */
async function beat(fields = {}) {
  const [form] = duties();
  if (document.visibilityState !== "visible") return;
  const { ok, answer, error } = await post(form.getAttribute("action"), new URLSearchParams(fields));
  if (ok) showDuty(answer.away, answer.until);
  if ("away" in fields) say(ok ? (answer.away ? "You are set to Away." : "You are available.") : error.message, !ok);
}

function startDuty() {
  if (!duties().length) return;
  const beats = setInterval(beat, BEAT_MS);
  whenRefused(() => clearInterval(beats));
  document.addEventListener("visibilitychange", () => beat());
  for (const form of duties()) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      beat({ away: form.querySelector("button").value });
    });
  }
  document.addEventListener("awm:frame", ({ detail }) => {
    if (detail.type === "presence" && detail.who === duties()[0].dataset.duty) beat(); // it knows until when
  });
  beat();
}

function start() {
  startTabs();
  startMenus();
  startCopies();
  startOpened();
  startDialogs();
  startPalette();
  startKeys();
  startClock();
  startConnection();
  bind("go-home", () => document.querySelector(".mark").click());
  document.addEventListener("htmx:afterSettle", () => { tick(); print(); });
  setInterval(titleTick, 1000);
  titleTick();
  startSent();
  startHeld();
  const path = document.body.dataset.queue;
  if (!path) return;
  document.addEventListener("awm:declined", declined);
  startDuty();
  startSound();
  watch(path, {
    onFrame: (frame) => {
      if (noteAsk(frame)) ringNow();
      document.dispatchEvent(new CustomEvent("awm:frame", { detail: frame }));
    },
    onGap: () => document.dispatchEvent(new CustomEvent("awm:frame", { detail: { type: "gap" } })),
  });
}

if (typeof document !== "undefined") start();
