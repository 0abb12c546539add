// What came of a deed, in words that hide by themselves and move nothing.

let saying = null;

/** Say it at the foot of the page for six seconds. */
export function say(words, bad = false) {
  const line = document.querySelector("[data-said]");
  if (!line) return;
  line.textContent = words;
  line.classList.toggle("bad", bad);
  line.hidden = false;
  clearTimeout(saying);
  saying = setTimeout(() => { line.hidden = true; }, 6000);
}
