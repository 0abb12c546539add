// The service worker: shows what a push brings, opens it in a tab that is there, and nothing else. It keeps no file and
// answers no request.

const ICON = "/static/icon-192.png";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

/** Our own pages alone; anything else opens the queue. */
function pathOf(data) {
  return /^\/(asks\/[0-9a-z]+|notices)\/$/.test(data?.path || "") ? data.path : "/queue/";
}

function show(notice) {
  return self.registration.showNotification(String(notice.title || "awmweb"), {
    body: String(notice.body || ""), tag: String(notice.tag || "awmweb"), icon: ICON,
    data: { path: pathOf(notice), ask: String(notice.ask || "") },
  });
}

function read(event) {
  try {
    return event.data.json();
  } catch {
    return { title: "An agent asks" }; // a push that cannot be read still tells that there is one
  }
}

const pages = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

self.addEventListener("push", (event) => event.waitUntil(show(read(event))));

// from pages that were told by their socket: shown once, and only if nobody looks at any of them
self.addEventListener("message", (event) => {
  if (event.data?.type !== "notice") return;
  event.waitUntil(pages().then((all) => (all.some((page) => page.visibilityState === "visible") ? null : show(event.data))));
});

/** A tab that shows it already, else one where nobody is writing, else a new one. */
async function open(path) {
  const all = await pages();
  const at = (page) => new URL(page.url).pathname;
  const there = all.find((page) => at(page) === path);
  if (there) return there.focus();
  const idle = all.find((page) => !at(page).startsWith("/asks/"));
  try {
    const moved = idle && (await idle.navigate(path));
    if (moved) return await moved.focus();
  } catch {
    // a tab that this worker does not control yet cannot be moved
  }
  return self.clients.openWindow(path);
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(pathOf(event.notification.data)));
});
