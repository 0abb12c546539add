// The life of a page's content. When other content replaces it without a page load, its listeners, timers, keys and sockets end.
// Content that came with the page, and the shell around it, end with the page.

let content = new AbortController();

/** Return the signal that is aborted when the content ends, for `addEventListener` and its "abort" event. */
export const life = () => content.signal;

/**
 * Repeat a job until the content ends.
 * @param {() => unknown} job
 * @param {number} ms
 */
export function every(job, ms) {
  const timer = setInterval(job, ms);
  whenOver(() => clearInterval(timer));
  return timer;
}

/**
 * Run a job when the content ends.
 * @param {() => void} job
 */
export function whenOver(job) {
  life().addEventListener("abort", job, { once: true });
}

let before = null;

/** Start the life of the content. What started before belongs to the shell and stays. */
export function begin() {
  before ??= content;
  content = new AbortController();
}

/** End the content, once: what starts from here on belongs to the shell, which stays, until the next `begin`. */
export function end() {
  if (content === before) return;
  content.abort();
  content = before;
}

/**
 * Run `work` in the frame after the next `count`, unless the page has ended by then.
 * @param {number} count
 * @param {() => void} work
 */
export function afterFrames(count, work) {
  const signal = life();
  requestAnimationFrame(() => {
    if (signal.aborted) return;
    if (count) afterFrames(count - 1, work);
    else work();
  });
}
