// The zoom of pictures: a dialog with one picture of the page. j and k go to the next and the previous one, Esc leaves it.

import { bind } from "../shell/keys.js";
import { life } from "../shell/page-life.js";

const all = () => /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("a[data-picture]")]);
const here = () => /** @type {HTMLAnchorElement | null} */ (document.querySelector("[aria-current=step] a[data-picture]")) || all()[0];

/** Let pictures open in the dialog, by a click and by the key. */
export function startPictures() {
  bind("zoom", () => open(here()), () => all().length > 0);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? /** @type {HTMLAnchorElement | null} */ (event.target.closest("a[data-picture]")) : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
    event.preventDefault();
    open(link);
  }, { signal: life() });
}

/** @param {HTMLAnchorElement} first */
function open(first) {
  const box = document.createElement("dialog");
  box.className = "zoom";
  box.innerHTML = '<img alt=""><p><span></span><a class="btn" target="_blank" rel="noopener">Open in full size</a><button class="btn" autofocus>Close</button></p>';
  const [image, words, link, close] = [box.querySelector("img"), box.querySelector("span"), box.querySelector("a"), box.querySelector("button")];
  let shown = first;
  const show = (/** @type {HTMLAnchorElement} */ picture) => {
    shown = picture;
    [image.src, link.href] = [picture.href, picture.href];
    image.alt = words.textContent = picture.dataset.picture;
    box.setAttribute("aria-label", picture.dataset.picture);
  };
  box.addEventListener("keydown", (event) => {
    const step = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const pictures = all();
    const next = pictures[pictures.indexOf(shown) + step];
    if (next) show(next);
  });
  close.addEventListener("click", () => box.close());
  box.addEventListener("close", () => {
    box.remove();
    if (shown.isConnected) shown.focus(); // the reader goes on at the picture that was seen last
  });
  life().addEventListener("abort", () => box.close());
  show(first);
  document.body.append(box);
  box.showModal();
}
