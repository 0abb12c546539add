// What ends when a page's content is swapped for other content without a page load: its listeners, timers, keys and sockets.
// Content that came with the page, and the shell around it, end with the page.

let content = new AbortController();

/** Ends when the content does. For `addEventListener`, and for all else by its "abort" event. */
export const life = () => content.signal;

/**
 * Repeat a job while the content is there.
 * @param {() => unknown} job
 * @param {number} ms
 */
export function every(job, ms) {
  const timer = setInterval(job, ms);
  whenOver(() => clearInterval(timer));
  return timer;
}

/**
 * Run something when the content ends.
 * @param {() => void} job
 */
export function whenOver(job) {
  life().addEventListener("abort", job, { once: true });
}

let before = null;

/** From here on, what starts belongs to the content; the shell started earlier and stays. */
export function begin() {
  before ??= content;
  content = new AbortController();
}

/** The content leaves; what starts afterwards is the shell's until the next begins. */
export function end() {
  content.abort();
  content = before;
}

/**
 * Do `work` in the frame after the next `count`, unless the page is over by then.
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
