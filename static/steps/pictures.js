// The zoom of pictures: a dialog with one picture of the page, or beside the one before it. j and k go to the next and the
// previous one, s puts two side by side, Esc leaves it.

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

let isPaired = false; // stays for the next zoom of this page

/** @param {HTMLAnchorElement} first */
function open(first) {
  const box = document.createElement("dialog");
  box.className = "zoom";
  box.innerHTML = '<div></div><p><button class="btn" aria-pressed="false"><kbd>s</kbd>Side by side</button><button class="btn" autofocus>Close</button></p>';
  const [sides, pair, close] = [box.querySelector("div"), ...box.querySelectorAll("button")];
  let shown = first;
  const show = (/** @type {HTMLAnchorElement} */ picture) => {
    shown = picture;
    const pictures = all();
    const before = isPaired ? pictures[pictures.indexOf(picture) - 1] : null;
    sides.replaceChildren(...(before ? [before, picture] : [picture]).map(figure));
    box.classList.toggle("paired", Boolean(before));
    pair.hidden = pictures.length < 2;
    pair.setAttribute("aria-pressed", `${isPaired}`);
    box.setAttribute("aria-label", before ? `${before.dataset.picture}, beside ${picture.dataset.picture}` : picture.dataset.picture);
  };
  const toggle = () => {
    isPaired = !isPaired;
    show(shown);
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length > 1 ? event.key : event.key.toLowerCase();
    const step = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[key];
    if (!step && key !== "s") return;
    event.preventDefault();
    const pictures = all();
    const next = pictures[pictures.indexOf(shown) + step];
    if (step && next) show(next);
    if (key === "s" && !pair.hidden && !event.repeat) toggle();
  });
  pair.addEventListener("click", toggle);
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

/** A large picture above its words, which lead to it in full size. @param {HTMLAnchorElement} picture */
function figure(picture) {
  const made = document.createElement("figure");
  made.innerHTML = '<img alt=""><figcaption><span></span><a target="_blank" rel="noopener">Open in full size</a></figcaption>';
  const [image, words, link] = [made.querySelector("img"), made.querySelector("span"), made.querySelector("a")];
  [image.src, link.href] = [picture.href, picture.href];
  image.alt = words.textContent = picture.dataset.picture;
  return made;
}
