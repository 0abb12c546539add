// Parts that are fetched when they are opened: the server decides per reader what they contain.

import { fetchFragment } from "./connection.js";

async function fill(box) {
  const room = box.querySelector("[data-fetched]");
  try {
    room.replaceChildren(...(await fetchFragment(box.dataset.fetch)).body.childNodes);
    delete box.dataset.fetch;
  } catch {
    room.textContent = "Can't reach the server. Close and open this to ask again.";
  }
}

export function startOpened() {
  document.addEventListener("toggle", (event) => {
    const box = event.target;
    if (box instanceof HTMLDetailsElement && box.open && box.dataset.fetch) fill(box);
  }, true); // toggles do not bubble
}
