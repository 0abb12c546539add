// Live episodes in lists: rows change in place from the `episode` frames of the queue's socket, without a request.
//
// Frames are kept by episode and drawn in slices of 5 ms per animation frame, for rows in view only. Rows are sorted by need: a
// person, stalled (running, no step for 30 s), running, queued, and just ended ones for some seconds. While the pointer or the
// focus is in the list, rows keep their places, and a button counts those that would move; one that ended leaves its group all
// the same, and a gap keeps the places of the others. An unknown row is fetched from `/wall.html?episode=`; after a gap in the
// stream, and every 30 s, all rows are.

import { inProject } from "../shell/address.js";
import { serverNow, tick } from "../shell/clock.js";
import { fetchFragment } from "../shell/connection.js";
import { coalesce } from "../shell/stream.js";
import { actionsIn, pictures, strip } from "../steps/strip.js";
import { counted, grouped } from "../shell/numbers.js";
import { visible } from "../shell/visible-text.js";

const SLICE_MS = 5;
const ROOM = 22;
const SLOW_MS = 30_000;
const FADE_MS = 4000;
const COUNT_MS = 3000;
const NEEDS = ["person", "stalled", "running", "queued", "over"];
const LIVE = { waiting: "person", parked: "person", running: "running", queued: "queued" };

/**
 * Return the need of a row by its state and the time of its last step.
 * @param {string} state
 * @param {number} lastAt
 * @param {number} now
 * @param {{stalled?: string}} [times]
 */
export function needOf(state, lastAt, now, { stalled } = document.body.dataset) {
  if (state === "running" && now - lastAt > 1000 * Number(stalled)) return "stalled";
  return LIVE[state] || "over";
}

/** Return keys in the order of the list: by need, then by age. */
export function inOrder(rows) {
  return [...rows].sort((a, b) => NEEDS.indexOf(a.need) - NEEDS.indexOf(b.need) || a.order - b.order || (a.key < b.key ? -1 : 1));
}

/** "60 live, 3 need a person, 2 stalled" */
export function lineOf(needs, total = needs.length) {
  const count = (need) => needs.filter((one) => one === need).length;
  const [waiting, stalled] = [count("person"), count("stalled")];
  const parts = [total > needs.length ? `${grouped(needs.length)} of ${grouped(total)} live` : `${grouped(needs.length)} live`];
  if (waiting) parts.push(`${waiting} ${waiting === 1 ? "needs" : "need"} a person`);
  if (stalled) parts.push(`${stalled} stalled`);
  return needs.length ? parts.join(", ") : "";
}

const pending = new Map();
const unknown = new Set();
let frame = 0;

const rowsOf = (root) => new Map([...root.querySelectorAll("tr[data-episode]")].map((row) => [row.dataset.episode, row]));
let rows = new Map();

function readRows() {
  rows = rowsOf(document);
  for (const row of rows.values()) sight.observe(row);
}
const bodyHere = () => document.querySelector("[data-wall]");
const cell = (row, name) => row.querySelector(`[data-cell="${name}"]`);
const say = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

function draw() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const start = performance.now();
    for (const [id, one] of pending) {
      pending.delete(id);
      update(one);
      if (performance.now() - start > SLICE_MS) break;
    }
    if (pending.size) draw();
    else arrange();
  });
}

function update(one) {
  const row = rows.get(one.episode);
  if (!row?.isConnected) {
    if (bodyHere() && LIVE[one.state]) fetchRow(one.episode);
    return;
  }
  const before = Number(row.dataset.lastSeq);
  if (one.last_seq > before) row.dataset.lastAt = new Date(serverNow()).toISOString();
  row.dataset.acted = String(actedAfter(Number(row.dataset.acted), before, one));
  row.dataset.lastSeq = String(one.last_seq);
  row.dataset.strip = one.strip;
  if (one.last_action) say(cell(row, "action"), one.last_action === "ask" ? "ask_expert" : visible(one.last_action)); // as the server writes it
  row.dataset.state = one.state;
  keepTime(row);
  if (inView.has(row)) paint(row);
  else {
    unpainted.add(row); // drawn when it comes into view; its place in the list is known anyway
    row.dataset.wants = wantOf(row);
  }
}

/** Run an episode's time from the moment it leaves the queue, and stop it at its end. */
function keepTime(row) {
  const time = cell(row, "elapsed");
  if (!time || row.dataset.state === "queued") return;
  let span = time.querySelector("span:not(.dim)");
  if (!span) {
    span = document.createElement("span");
    span.dataset[inView.has(row) ? "since" : "sinceThen"] = new Date(serverNow()).toISOString();
    time.replaceChildren(span);
  }
  if (LIVE[row.dataset.state]) return;
  delete span.dataset.since;
  delete span.dataset.sinceThen;
}

const inView = new WeakSet();
const unpainted = new WeakSet();
const sight = typeof IntersectionObserver === "undefined" ? null : new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    for (const time of target.querySelectorAll(isIntersecting ? "[data-since-then]" : "[data-since]")) {
      const [from, to] = isIntersecting ? ["sinceThen", "since"] : ["since", "sinceThen"]; // a clock out of view stops
      time.dataset[to] = time.dataset[from];
      delete time.dataset[from];
    }
    if (!isIntersecting) inView.delete(target);
    else {
      inView.add(target);
      if (unpainted.delete(target)) paint(target);
    }
  }
}, { rootMargin: "200px 0px" });

const wantOf = (row) => (row.closest("[data-wall]") ? needOf(row.dataset.state, Date.parse(row.dataset.lastAt), serverNow()) : LIVE[row.dataset.state] || "over");

/** Return an episode's number of actions by its frame, which has the end of its strip: counted in full, or from what was known. */
export function actedAfter(acted, seq, one, from = pictures()) {
  if (one.strip.length >= one.last_seq) return actionsIn(one.strip, from);
  const fresh = Math.min(one.last_seq - seq, one.strip.length);
  return acted + (fresh > 0 ? actionsIn(one.strip.slice(-fresh), from) : 0);
}

function paint(row) {
  const { state } = row.dataset;
  const need = wantOf(row);
  const stalled = need === "stalled";
  if (row.dataset.strip !== undefined) paintSteps(row, stalled);
  const drawn = stalled ? "stalled" : state;
  if (row.dataset.drawn !== drawn) {
    const [symbol, css, word] = stalled ? ["e-running", "idle", "Stalled"] : pictures().states[state] || ["e-queued", "idle", state];
    cell(row, "state").innerHTML = `<span class="st ${css}"><svg class="g" aria-hidden="true"><use href="#${symbol}"/></svg><span></span></span>`;
    cell(row, "state").querySelector("span span").textContent = word;
    row.dataset.drawn = drawn;
  }
  const quiet = cell(row, "quiet");
  if (quiet) {
    quiet.hidden = !stalled;
    quiet.querySelector("span").dataset[inView.has(row) ? "since" : "sinceThen"] = row.dataset.lastAt;
  }
  row.dataset.wants = need;
  if (need === "over") row.dataset.overAt ||= String(Date.now());
  else delete row.dataset.overAt;
}

function paintSteps(row, stalled) {
  const codes = row.dataset.strip;
  const budget = Number(row.dataset.budget) || 0;
  const [acted, count] = [Number(row.dataset.acted), Number(row.dataset.lastSeq)];
  const running = row.dataset.state === "running";
  const place = cell(row, "strip"); // a list can be without this column
  if (place) place.innerHTML = strip(codes, { budget: LIVE[row.dataset.state] ? budget : 0, running, stalled, room: Number(row.closest("[data-room]")?.dataset.room ?? ROOM), acted, count });
  say(cell(row, "count"), `${grouped(acted)}${budget ? ` / ${grouped(budget)}` : ""}`);
}

const isHeld = (list) => list.matches(":hover, :focus-within") || list.querySelector('[aria-selected="true"]') !== null;

/** Put rows in order, unless the list is in use. */
function arrange(force = false) {
  const body = bodyHere();
  if (!body) return;
  const here = [...body.querySelectorAll("tr[data-episode]")];
  const held = isHeld(body) && !force;
  if (held) for (const row of here.filter((one) => one.dataset.wants === "over")) setAside(body, row);
  const news = here.filter((row) => (row.dataset.wants || row.dataset.need) !== row.dataset.need);
  const waits = [...rowsWaiting.values()];
  const faded = here.filter((row) => row.dataset.need === "over" && !fading(row));
  sayPill(held ? news.length + waits.length : 0);
  if (!held) for (const gap of body.querySelectorAll("tr.gap")) gap.remove();
  if (!held && (news.length || waits.length || faded.length)) place(body, [...here, ...waits]);
  tally(body);
}

/** Move an ended row of a list in use to those that just ended, and leave a gap in its place. The row under the pointer stays. */
function setAside(body, row) {
  if (row.dataset.need === "over" || row.matches(':hover, :focus-within, [aria-selected="true"]')) return;
  const gap = document.createElement("tr");
  gap.className = "gap";
  const cells = document.createElement("td");
  cells.colSpan = row.cells.length;
  cells.style.height = `${row.offsetHeight}px`;
  gap.append(cells);
  row.replaceWith(gap);
  row.dataset.need = "over";
  body.append(row);
}

const rowsWaiting = new Map();
const fading = (row) => row.dataset.overAt && Date.now() - Number(row.dataset.overAt) < FADE_MS;

function place(body, all) {
  rowsWaiting.clear();
  const stay = all.filter((row) => row.dataset.wants !== "over" || fading(row));
  for (const row of all) if (!stay.includes(row)) row.remove();
  const order = inOrder(stay.map((row) => ({
    row, key: row.dataset.episode, order: Number(row.dataset.order), need: row.dataset.wants || row.dataset.need,
  })));
  for (const need of NEEDS) {
    let after = body.querySelector(`tr.grp[data-need="${need}"]`);
    for (const one of order.filter((row) => row.need === need)) {
      one.row.dataset.need = need;
      if (after.nextElementSibling !== one.row) after.after(one.row);
      after = one.row;
    }
  }
}

function tally(body) {
  const here = [...body.querySelectorAll("tr[data-episode]")];
  const needs = here.filter((row) => row.dataset.wants !== "over").map((row) => row.dataset.need);
  for (const head of body.querySelectorAll("tr.grp")) {
    const count = here.filter((row) => row.dataset.need === head.dataset.need).length;
    head.hidden = count === 0;
    say(head.querySelector("[data-count]"), String(count));
  }
  say(document.querySelector("[data-wall-line]"), lineOf(needs, Number(body.dataset.total) || 0));
  const box = body.closest("[data-wall-box]");
  body.closest(".sheet").hidden = here.length === 0;
  box.querySelector("[data-empty]").hidden = here.length > 0;
}

function sayPill(count) {
  const pill = document.querySelector("[data-wall-pill]");
  if (!pill) return;
  pill.hidden = count === 0;
  say(pill, `${counted(count, "row has,rows have")} moved, show`);
}

const fetchRows = coalesce(async () => {
  const ids = [...unknown].slice(0, 50);
  for (const id of ids) unknown.delete(id);
  if (!ids.length) return;
  const fresh = await fetchFragment(inProject(`wall.html?${ids.map((id) => `episode=${encodeURIComponent(id)}`).join("&")}`));
  for (const [id, row] of rowsOf(fresh)) {
    if (rows.get(id)?.isConnected) continue;
    welcome(id, row);
  }
  arrange();
  tick();
}, 300);

function welcome(id, row) {
  rows.set(id, row);
  rowsWaiting.set(id, document.adoptNode(row));
  sight.observe(row);
}

function fetchRow(id) {
  if (rowsWaiting.has(id)) return;
  unknown.add(id);
  fetchRows().catch(() => {}); // the slow timer fetches all rows
}

/** Fetch all rows: after a gap, and regularly, because a lost frame leaves no trace. */
const fetchAll = coalesce(async () => {
  if (!bodyHere()) return;
  const fresh = await fetchFragment(inProject("wall.html"));
  const known = rowsOf(fresh);
  for (const [id, row] of known) {
    const old = rows.get(id);
    if (old?.isConnected) adopt(old, row);
    else welcome(id, row);
  }
  for (const row of bodyHere().querySelectorAll("tr[data-episode]")) if (!known.has(row.dataset.episode)) row.dataset.wants = "over";
  const [old, now] = [document.querySelector("[data-runs]"), fresh.querySelector("[data-runs]")];
  if (old && now) old.replaceChildren(...now.childNodes);
  bodyHere().dataset.total = fresh.querySelector("[data-wall]").dataset.total;
  arrange();
  tick();
}, 2000);

let counting = 0;

/** Refresh the line of runs some seconds after an end; that counts all ends of these seconds. */
function countEnds() {
  if (counting || !bodyHere()) return;
  counting = setTimeout(() => { counting = 0; fetchAll().catch(() => {}); }, COUNT_MS);
}

function adopt(old, fresh) {
  for (const name of ["state", "strip", "action", "quiet", "count", "elapsed"]) {
    const [was, now] = [cell(old, name), cell(fresh, name)];
    if (was.outerHTML !== now.outerHTML) was.replaceWith(now);
  }
  const { state, lastAt, lastSeq, acted, need } = fresh.dataset;
  Object.assign(old.dataset, { state, lastAt, lastSeq, acted, wants: need });
  delete old.dataset.drawn;
  delete old.dataset.strip; // the server's drawing stays until the next frame
}

function start() {
  readRows();
  document.addEventListener("awm:frame", ({ detail }) => {
    if (detail.type === "gap") fetchAll().catch(() => {});
    if (detail.type !== "episode") return;
    pending.set(detail.episode, { ...pending.get(detail.episode), ...detail, last_action: detail.last_action || pending.get(detail.episode)?.last_action });
    draw();
    if (detail.state && !LIVE[detail.state]) countEnds();
  });
  document.addEventListener("awm:rows", readRows);
  if (!bodyHere()) return;
  for (const kind of ["mouseleave", "focusout"]) bodyHere().addEventListener(kind, () => setTimeout(arrange, 0));
  document.querySelector("[data-wall-pill]")?.addEventListener("click", () => arrange(true));
  document.addEventListener("awm:show-new", () => arrange(true));
  setInterval(() => {
    for (const row of bodyHere().querySelectorAll("tr[data-episode]")) {
      const need = needOf(row.dataset.state, Date.parse(row.dataset.lastAt), serverNow());
      if (need !== (row.dataset.wants || row.dataset.need)) paint(row);
    }
    arrange();
  }, 1000);
  setInterval(() => { if (document.visibilityState === "visible") fetchAll().catch(() => {}); }, SLOW_MS);
}

if (typeof document !== "undefined") start();
