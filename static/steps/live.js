// The page of a live episode: follows the newest step until the reader scrolls away, and pauses the view.

import { bind, print } from "../shell/keys.js";
import { grouped } from "../shell/numbers.js";
import { announce } from "../shell/toast.js";
import { keepTrue, lastOf, lists, startAddress, startFind, startKeys } from "./steps.js";

const SAY_MS = 2000;

const page = document.querySelector("[data-episode]");
const pill = document.querySelector("[data-follow]");
const living = page.dataset.live === "yes";
let paused = false;
let missed = 0; // the newest number while the view is paused
let seen = 0; // the newest number when the reader scrolled away
let saidAt = 0;
let unsaid = 0;
let list = null;
let wasPill = "";

const unseen = () => Math.max(0, Math.max(list.last, missed) - seen);

function sayFollow() {
  const news = unseen() ? `${grouped(unseen())} new below` : "";
  const words = paused ? `Paused${unseen() ? `, ${grouped(unseen())} new` : ""} ` : list.following ? "Following " : news ? `${news} ↓ ` : "Follow ";
  if (words === wasPill) return;
  wasPill = words;
  pill.firstChild.textContent = words;
  pill.setAttribute("aria-pressed", String(list.following && !paused));
}

function changed() {
  if (!list) return;
  if (list.following) seen = list.last;
  else if (!paused && living && list.hand && list.atEnd()) follow(); // the reader scrolled back to the end
  const title = document.querySelector("[data-part=strap]")?.dataset.title;
  if (title) document.body.dataset.title = title;
  sayFollow();
}

/** Announce one message per batch, not one per step. */
function news(from, to) {
  unsaid ||= from;
  if (Date.now() - saidAt < SAY_MS) return;
  announce(unsaid === to ? `Step ${grouped(to)}` : `Steps ${grouped(unsaid)} to ${grouped(to)}`);
  [saidAt, unsaid] = [Date.now(), 0];
}

function follow(on = true) {
  paused = false;
  if (on) missed = 0;
  seen = list.last;
  list.follow(on && living);
  if (on && !living) list.choose(list.last);
  sayFollow();
}

function pause() {
  paused = !paused;
  if (paused) {
    seen = list.last;
    list.follow(false);
  } else {
    source.catchUp();
    follow();
  }
  sayFollow();
}

[list] = lists({ onChange: changed, onNew: news });
seen = list.last;
startKeys(list);
startFind(list);
bind("last", () => {
  list.choose(null);
  follow();
});
const source = living ? keepTrue(list, page.dataset.socket, {
  hold: () => paused,
  heard(frame) {
    if (!paused) return;
    missed = Math.max(missed, lastOf(frame));
    sayFollow();
  },
}) : null;
if (living) {
  bind("follow", () => follow(!list.following || paused));
  bind("pause", pause);
}
pill.addEventListener("click", () => follow(!list.following || paused));
if (startAddress(list) === null && living) follow(); // an ended episode is read from its head and its first step
print();
