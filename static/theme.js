// Light or dark, remembered on this device. A plain script in the head, so the first paint has the right theme.
(() => {
  const root = document.documentElement;
  const KEY = "awmweb-theme";
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage can be closed; the system's theme applies
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
      return; // it applies to this page only
    }
  });
})();
