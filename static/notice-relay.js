// Notices on every page: what the socket brings is handed to the service worker, which shows it if nobody looks at any
// page of ours; a notice whose ask has closed is taken away.

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
  // without a worker or a right to it there is nothing to show and nothing to take away
  document.addEventListener("awm:frame", ({ detail }) => hear(detail).catch(() => {}));
}
