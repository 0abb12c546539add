// Light or dark, remembered on this device. A plain script in the head, so that the first paint is right already.
(() => {
  const root = document.documentElement;
  const KEY = "awmweb-theme";
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be closed to us; the system's choice stands then
    }
  };
  const stored = read();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest('[data-act="theme"]')) return;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      return; // it holds for this page at least
    }
  });
})();
