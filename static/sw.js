// The service worker: shows push notifications and opens their pages in a tab. It stores no file and answers no request.

const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));
const ICON = "/static/icon-192.png";
const PAGE = /^(\/projects\/[-\w]+)?\/(asks\/[0-9a-z]+|reviews\/mentions\/[0-9a-z]+|notices)\/$/;

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

/**
 * Return the path if it is one of this site's pages, otherwise the queue's.
 * @param {{path?: string} | null | undefined} data
 */
function pathOf(data) {
  return PAGE.test(data?.path || "") ? data.path : "/queue/";
}

/** @param {{title?: string, body?: string, tag?: string, path?: string, ask?: string}} notice */
function show(notice) {
  return worker.registration.showNotification(String(notice.title || "awmweb"), {
    body: String(notice.body || ""), tag: String(notice.tag || "awmweb"), icon: ICON,
    data: { path: pathOf(notice), ask: String(notice.ask || "") },
  });
}

/** @param {PushEvent} event */
function read(event) {
  try {
    return event.data.json();
  } catch {
    return { title: "An agent asks" }; // an unreadable push still shows that an ask is there
  }
}

/** @returns {Promise<readonly WindowClient[]>} */
const pages = () => worker.clients.matchAll({ type: "window", includeUncontrolled: true });

worker.addEventListener("push", (event) => event.waitUntil(show(read(event))));

// from pages that a socket told: shown once, and only if no page is visible
worker.addEventListener("message", (event) => {
  if (event.data?.type !== "notice") return;
  event.waitUntil(pages().then((all) => (all.some((page) => page.visibilityState === "visible") ? null : show(event.data))));
});

/**
 * Focus a tab that shows the page, else use one that is not on an ask, else open a new one.
 * @param {string} path
 */
async function open(path) {
  const all = await pages();
  const at = (/** @type {Client} */ page) => new URL(page.url).pathname;
  const there = all.find((page) => at(page) === path);
  if (there) return there.focus();
  const idle = all.find((page) => !/^(\/projects\/[-\w]+)?\/asks\//.test(at(page)));
  try {
    const moved = idle && (await idle.navigate(path));
    if (moved) return await moved.focus();
  } catch {
    // a tab that this worker does not control yet can't be moved
  }
  return worker.clients.openWindow(path);
}

worker.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(pathOf(event.notification.data)));
});
