// Notifications from the socket: passed to the service worker, which shows them if no awmweb page is visible. A
// notification is removed when its ask closes.

const worker = () => navigator.serviceWorker?.getRegistration("/");

async function hear(frame) {
  if (frame.type === "notice") {
    if (globalThis.Notification?.permission !== "granted") return;
    (await worker())?.active?.postMessage(frame);
  }
  if (frame.type === "ask" && frame.status !== "open") {
    for (const one of (await (await worker())?.getNotifications?.()) || []) if (one.data?.ask === frame.ask) one.close();
  }
}

if (typeof document !== "undefined") {
  // without a worker or permission there is no notification to show or remove
  document.addEventListener("awm:frame", ({ detail }) => hear(detail).catch(() => {}));
}
