// Time by the server's clock: countdowns, elapsed times and relative times. Owns every element with `data-deadline`,
// `data-since` or `data-time`. Frames of sockets correct the offset.

export const RING = 50.27;

let offset = 0;

/** Return milliseconds since 1970 by the server's clock. */
export function serverNow() {
  return Date.now() + offset;
}

/**
 * Set the clock by the server's time in a frame or a page.
 * @param {string} iso
 */
export function syncTo(iso) {
  const at = Date.parse(iso);
  if (!Number.isNaN(at)) offset = at - Date.now();
}

/**
 * Return seconds as m:ss, or h:mm:ss from an hour on.
 * @param {number} seconds
 */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/**
 * Return how near a deadline is, by the share of its budget that is left; the page's body has the levels.
 * @param {number} share
 * @param {{late?: string, soon?: string}} levels
 */
export function level(share, { late, soon } = document.body.dataset) {
  if (share < Number(late)) return "late";
  return share < Number(soon) ? "soon" : "";
}

/**
 * Return "12 s ago" or "3 min ago": one unit, rounded down.
 * @param {number} seconds
 */
export function ago(seconds) {
  if (seconds < 5) return "just now";
  for (const [size, unit] of /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]])) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return "just now";
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function count(element, now) {
  const left = (Date.parse(element.dataset.deadline) - now) / 1000;
  const budget = Number(element.dataset.budget) || 0;
  const share = budget ? Math.min(1, Math.max(0, left / budget)) : 1;
  const text = element.querySelector("[data-left]") || element;
  say(text, clock(left));
  const want = level(share);
  for (const name of ["soon", "late"]) element.classList.toggle(name, name === want);
  if ("bare" in element.dataset) element.classList.toggle("bad", want === "late");
  element.querySelector(".arc")?.setAttribute("stroke-dasharray", `${(share * RING).toFixed(1)} 60`);
  if (left <= 0 && !element.dataset.over) {
    element.dataset.over = "1";
    element.dispatchEvent(new CustomEvent("awm:deadline", { bubbles: true }));
  }
}

function fuse(element, now) {
  const left = (Date.parse(element.dataset.fuse) - now) / 1000;
  const share = Math.min(1, Math.max(0, left / (Number(element.dataset.budget) || 1)));
  element.querySelector(".left")?.setAttribute("width", String(240 * share));
}

/**
 * Update every time on the page.
 * @param {Document | Element} [root]
 */
export function tick(root = document) {
  const now = serverNow();
  for (const element of root.querySelectorAll("[data-deadline]")) count(element, now);
  for (const element of root.querySelectorAll("[data-fuse]")) fuse(element, now);
  for (const element of root.querySelectorAll("[data-since]")) {
    say(element, clock((now - Date.parse(element.dataset.since)) / 1000));
  }
  localiseAll(root);
  for (const element of root.querySelectorAll('time[data-time="ago"]')) {
    say(element, ago((now - Date.parse(element.dateTime)) / 1000));
  }
}

/** Start the clock of this page. */
export function start() {
  const meta = document.querySelector('meta[name="now"]');
  if (meta) syncTo(meta.content);
  tellZone();
  localiseAll();
  tick();
  setInterval(tick, 250);
}

/**
 * Show every time of the page, or of what comes into it, in the reader's zone, and name the zone where a table does.
 * @param {Document | Element} [root]
 */
export function localiseAll(root = document) {
  for (const element of root.querySelectorAll("time[data-utc]")) localise(/** @type {HTMLTimeElement} */ (element));
  for (const element of root.querySelectorAll("[data-zone]")) say(element, zone());
}

const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const DAY = /** @type {const} */ ({ year: "numeric", month: "short", day: "numeric" });
const TIME = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/**
 * Return "14:05:59", "14:05" (clock), "Nov 22, 2026" (day) or "Nov 22, 2026 14:05" (minute) in the reader's zone.
 * @param {Date} at
 * @param {string} [style]
 */
export function timeIn(at, style = "seconds") {
  const [day, hours] = [at.toLocaleDateString("en-US", DAY), at.toLocaleTimeString("en-GB")];
  return { clock: hours.slice(0, 5), day, minute: `${day} ${hours.slice(0, 5)}` }[style] || hours;
}

/**
 * Return an element that shows a time in the reader's zone, and names the zone in its tooltip.
 * @param {string} iso
 * @param {string} [style]
 */
export function timeOf(iso, style = "seconds") {
  const element = Object.assign(document.createElement("time"), { dateTime: iso });
  element.dataset.time = style;
  localise(element);
  return element;
}

/** Return "Nov 22, 2026, 14:05:59 GMT+1": a whole time in the reader's zone, which it names. */
export function inFull(at) {
  return at.toLocaleString("en-US", { ...DAY, ...TIME, timeZoneName: "short" });
}

/**
 * Show a time and its tooltip in the reader's zone; the server prints UTC.
 * @param {HTMLTimeElement} element
 */
export function localise(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return;
  if (element.dataset.time !== "ago") say(element, timeIn(at, element.dataset.time));
  element.title = inFull(at);
  element.removeAttribute("data-utc");
}

/** Tell the server the reader's zone, for what it counts by days. */
function tellZone() {
  const known = `zone=${zone()}`; // letters, digits and -+_/ alone, so it needs no escapes
  if (!document.cookie.split("; ").includes(known)) {
    document.cookie = `${known}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  }
}
