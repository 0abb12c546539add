// Letters typed while a claimed ask loads, kept for its form. A plain script in the head: it hears keys before the scripts of the
// page run. It starts when a form with `data-claims` is sent, goes on in the next page, and ends when `awm:typed` takes the words.
(() => {
  const KEY = "awmweb-typed";
  const LONGEST_MS = 10_000; // a page that takes longer has failed
  let kept = null; // {text, since}

  const read = () => {
    try {
      return JSON.parse(sessionStorage.getItem(KEY) || "null");
    } catch {
      return null; // storage is closed: letters are not kept
    }
  };
  const write = () => {
    try {
      if (kept) sessionStorage.setItem(KEY, JSON.stringify(kept));
      else sessionStorage.removeItem(KEY);
    } catch {
      kept = null;
    }
  };
  const isFresh = (one) => one && Date.now() - one.since < LONGEST_MS;
  const stop = () => {
    kept = null;
    write();
  };

  kept = read();
  if (!isFresh(kept)) stop();

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !(event.target instanceof Element) || !event.target.matches("form[data-claims]")) return;
    kept = { text: "", since: Date.now() };
    write();
  });
  // AltGr is Ctrl and Alt on Windows, and Option on a Mac: with either, a sign is typed and not a shortcut pressed
  const isSign = (event) => event.key.length === 1 && !event.metaKey
    && (event.getModifierState("AltGraph") || (event.altKey && !/[a-z0-9 ]/i.test(event.key)));
  document.addEventListener("keydown", (event) => {
    const isShortcut = (event.ctrlKey || event.metaKey || event.altKey) && !isSign(event);
    if (!kept || isShortcut || event.isComposing) return;
    if (event.key === "Escape" || !isFresh(kept)) return stop();
    if (event.key === "Backspace") kept.text = kept.text.slice(0, -1);
    else if (event.key.length === 1) kept.text += event.key;
    else if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopImmediatePropagation();
    write();
  }, true);
  document.addEventListener("awm:typed", (event) => {
    if (kept) /** @type {CustomEvent} */ (event).detail.text = kept.text;
    stop();
  });
  document.addEventListener("DOMContentLoaded", () => {
    if (kept && !document.querySelector("form[data-answer]")) stop(); // no ask was claimed: keys are keys again
  });
  addEventListener("pageshow", (event) => { if (event.persisted) kept = null; });
})();
