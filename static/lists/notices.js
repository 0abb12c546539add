// The page Notifications: turn on the channels of this browser, or say why it cannot.

import { post } from "../shell/post.js";
import { say } from "../shell/toast.js";

/** Return why this browser cannot show notifications; empty if it can. */
export function obstacle({ secure, worker, notification, permission, push, wantsPush, ios, standalone }) {
  if (!secure) return "Browsers show notifications only over HTTPS or on localhost. Ask the operator for an HTTPS address.";
  if (ios && !standalone && !(notification && (push || !wantsPush))) {
    return "On iPhone and iPad: tap Share, then Add to Home Screen, and open awmweb from there.";
  }
  if (!worker || !notification) return "This browser does not support notifications, or this is a private window.";
  if (wantsPush && !push) return "This browser does not support push notifications.";
  if (permission === "denied") return "Notifications are blocked for this site. Allow them in the browser's site settings, then reload.";
  return "";
}

/**
 * Return the server's key as browsers take it.
 * @param {string} key
 */
export function bytesOf(key) {
  const plain = atob(key.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

/**
 * Return the name of this browser in the list.
 * @param {string} agent
 */
export function nameOf(agent) {
  const find = (names) => names.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = find([[/Edg/, "Edge"], [/Firefox|FxiOS/, "Firefox"], [/Chrome|CriOS|Chromium/, "Chrome"], [/Safari/, "Safari"]]);
  const system = find([[/Android/, "Android"], [/iPhone|iPad/, "iOS"], [/Mac/, "macOS"], [/Windows/, "Windows"], [/Linux/, "Linux"]]);
  return [browser || "Browser", system].filter(Boolean).join(" on ");
}


function here(wantsPush) {
  return obstacle({
    wantsPush,
    secure: globalThis.isSecureContext,
    worker: "serviceWorker" in navigator,
    notification: "Notification" in globalThis,
    permission: globalThis.Notification?.permission,
    push: "PushManager" in globalThis,
    ios: /iPhone|iPad/.test(navigator.userAgent),
    standalone: matchMedia("(display-mode: standalone)").matches,
  });
}

async function allowed() {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("This browser did not allow notifications.");
  await navigator.serviceWorker.register("/sw.js", { scope: "/" });
  return navigator.serviceWorker.ready;
}

async function pushOf(registration, key) {
  const options = { userVisibleOnly: true, applicationServerKey: bytesOf(key) };
  try {
    return await registration.pushManager.subscribe(options);
  } catch (error) {
    if (error.name !== "InvalidStateError") throw error;
    await (await registration.pushManager.getSubscription())?.unsubscribe(); // a subscription with another key
    return registration.pushManager.subscribe(options);
  }
}

async function fieldsOf(kind, key) {
  const registration = await allowed();
  const name = nameOf(navigator.userAgent);
  if (kind === "browser") return { kind, name };
  const { endpoint, keys } = (await pushOf(registration, key)).toJSON();
  return { kind, name, target: endpoint, p256dh: keys.p256dh, auth: keys.auth };
}

async function switchOn(button) {
  const { kind, key, url } = button.dataset;
  button.disabled = true;
  try {
    const { ok, error } = await post(url, new URLSearchParams(await fieldsOf(kind, key)));
    if (!ok) throw new Error(error.message);
    location.reload();
  } catch (error) {
    button.disabled = false;
    const words = document.querySelector(`[data-obstacle="${kind}"]`);
    words.textContent = here(kind === "push") || `Could not turn it on: ${error.message}`;
    say(words.textContent, true);
  }
}

/** Mark this browser's push channel; removing it here ends it in the browser, too. */
async function markMine() {
  const registration = await navigator.serviceWorker?.getRegistration("/");
  const mine = await registration?.pushManager?.getSubscription();
  for (const row of document.querySelectorAll("[data-endpoint]")) {
    if (!mine || row.dataset.endpoint !== mine.endpoint) continue;
    row.querySelector("[data-this]").hidden = false;
    row.querySelector("[data-off]").addEventListener("submit", () => { mine.unsubscribe(); });
  }
}

function start() {
  for (const button of document.querySelectorAll("button[data-switch]")) {
    const words = here(button.dataset.kind === "push");
    document.querySelector(`[data-obstacle="${button.dataset.kind}"]`).textContent = words;
    button.disabled = Boolean(words);
    button.addEventListener("click", () => switchOn(button));
  }
  const zone = document.querySelector('input[name="zone"]');
  if (!zone.value) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  markMine().catch(() => {}); // only a mark beside a row; the list is complete without it
}

if (typeof document !== "undefined") start();
