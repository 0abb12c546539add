// A list of steps under the keys and under the wire, shared by live page, ask page and replay: choose a step, open all,
// fetch what is new and merge it by number.

import { localise, tick } from "./clock.js";
import { bind } from "./keys.js";
import { fetchFragment, mergeParts, mergeSteps } from "./merge.js";
import { coalesce } from "./stream.js";

export const list = () => document.querySelector("ol[data-steps]");
export const all = () => [...(list()?.querySelectorAll(":scope > li.step[data-seq]") || [])];
export const lastSeq = () => Number(all().at(-1)?.dataset.seq || list()?.dataset.from || 0);
export const current = () => list()?.querySelector(":scope > [aria-current]") || null;

/** Mark one step as the one in view. */
export function choose(step, { scroll = true } = {}) {
  current()?.removeAttribute("aria-current");
  if (!step) return;
  step.setAttribute("aria-current", "step");
  if (scroll) step.scrollIntoView({ block: "nearest" });
}

/** Move the choice; from nowhere it starts at the end that lies behind. */
export function move(step) {
  const steps = all();
  if (!steps.length) return;
  const at = steps.indexOf(current());
  const next = at < 0 ? (step > 0 ? 0 : steps.length - 1) : Math.min(steps.length - 1, Math.max(0, at + step));
  choose(steps[next]);
}

export function openAll() {
  const details = [...list().querySelectorAll("details")];
  const open = details.some((one) => !one.open);
  for (const one of details) one.open = open;
}

/** Keys that every list of steps has: next, previous, open all. */
export function startKeys(next, before) {
  bind(next, () => move(1));
  bind(before, () => move(-1));
  bind("open-all", openAll);
}

/**
 * A feed of an episode's fragments: `hint(seqs)` after a frame, `catchUp()` after a gap. Both fetch
 * `path?since=N` and merge; `onMerged(added)` hears the numbers that are new.
 */
export function feed(path, onMerged = () => {}) {
  let wanted = Infinity;
  const run = coalesce(async () => {
    const since = Math.min(wanted - 1, lastSeq());
    wanted = Infinity;
    const fresh = await fetchFragment(`${path}?since=${Math.max(0, since)}`);
    const added = mergeSteps(list(), fresh);
    mergeParts(fresh);
    for (const time of document.querySelectorAll("time[data-time]")) localise(time);
    tick();
    onMerged(added);
    return added.length;
  });
  return {
    hint(seqs) {
      wanted = Math.min(wanted, ...seqs);
      return run().catch(() => {}); // lost now; the slow timer and the reconnect fetch it
    },
    async catchUp() {
      const before = all().length;
      await run().catch(() => {});
      return all().length - before;
    },
  };
}
