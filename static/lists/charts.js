// Charts: figures that the server made from tables. Plotly draws each once it comes within 300 px of the view. Until then,
// without Plotly and without scripts, the tables have the same values. A refresh keeps the drawings (`hx-preserve`) and brings
// new figures, so a chart changes in place and keeps its zoom.

const LIBRARY = "../vendor/plotly-basic-4.1.1.min.js";
const NEAR = "300px";
const PNG_SCALE = 2;

/** @type {WeakMap<Element, {text: string, done: Promise<void>}>} what each plot is drawn from, and when it is done */
const drawn = new WeakMap();
const zoomed = new WeakSet();
const resets = new WeakMap();
const views = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    views.unobserve(target);
    draw(target.closest("[data-chart]")).then(drawNext);
  }
}, { rootMargin: NEAR });

/** Draw the others, one by one, once the first one has loaded Plotly and the browser has time: a print shows them all. */
function drawNext() {
  const next = [...document.querySelectorAll("[data-chart]:not(.undrawn)")].find((chart) => !drawn.has(plotOf(chart)) && plotOf(chart).offsetWidth > 0);
  if (!next) return;
  const idle = window.requestIdleCallback ?? ((/** @type {() => void} */ then) => setTimeout(then, 200));
  idle(() => {
    views.unobserve(plotOf(next));
    draw(/** @type {HTMLElement} */ (next)).then(drawNext);
  });
}

// a chart that is not drawn yet is printed as its table
addEventListener("beforeprint", () => {
  for (const chart of document.querySelectorAll("[data-chart]")) {
    if (!plotOf(chart).querySelector("svg")) chart.querySelector("details").open = true;
  }
});

let library = null;

/** Load Plotly once; after a failure the next chart tries again. */
function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(LIBRARY, import.meta.url).href;
    script.onload = () => resolve(/** @type {any} */ (window).Plotly);
    script.onerror = () => reject(new Error("Plotly was not loaded."));
    document.head.append(script);
  }).catch((error) => {
    library = null;
    throw error;
  });
  return library;
}

const figureOf = (chart) => JSON.parse(chart.querySelector('script[type="application/json"]').textContent);
const plotOf = (chart) => chart.querySelector(".plot");

/** Draw changed charts again, and observe the others until they come near the view. */
export function look() {
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const plot = plotOf(chart);
    plot.style.minHeight = `${figureOf(chart).layout.height}px`;
    if (drawn.has(plot)) draw(chart);
    else views.observe(plot);
  }
}

/** @param {HTMLElement} chart */
async function draw(chart) {
  const plot = plotOf(chart);
  const from = themed(figureOf(chart));
  const text = JSON.stringify(from);
  if (drawn.get(plot)?.text !== text) drawn.set(plot, { text, done: react(plot, from) });
  try {
    await drawn.get(plot).done; // a refresh can come while Plotly is still loading
  } catch {
    drawn.delete(plot);
    chart.classList.add("undrawn");
    chart.querySelector("details").open = true;
    return;
  }
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", chart.dataset.says);
  const [reset, png] = [act(chart, "reset"), act(chart, "png")];
  png.hidden = false;
  reset.hidden = !zoomed.has(plot);
}

const act = (chart, name) => chart.querySelector(`[data-act="chart-${name}"]`);

async function react(plot, { data, layout }) {
  const Plotly = await plotly();
  const isNew = !plot.classList.contains("js-plotly-plot");
  const touch = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page and does not zoom a chart
  const more = { uirevision: 1 + (resets.get(plot) ?? 0), dragmode: touch ? false : "zoom" };
  await Plotly.react(plot, data, { ...layout, ...more }, { displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset" });
  if (isNew) plot.on("plotly_relayout", (change) => whenZoomed(plot, change));
}

function whenZoomed(plot, change) {
  const keys = Object.keys(change);
  if (keys.some((key) => key.endsWith(".range[0]"))) zoomed.add(plot);
  else if (keys.some((key) => key.endsWith(".autorange") || key.endsWith(".range"))) zoomed.delete(plot);
  act(plot.closest("[data-chart]"), "reset").hidden = !zoomed.has(plot);
}

function resetZoom(chart) {
  const plot = plotOf(chart);
  resets.set(plot, (resets.get(plot) ?? 0) + 1);
  zoomed.delete(plot);
  drawn.delete(plot);
  draw(chart);
  act(chart, "png").focus();
}

/** Replace names of tokens by the theme's colors, and set the page's font. */
function themed(figure) {
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const known = new Map();
  const color = (name) => {
    if (!known.has(name)) known.set(name, resolved(probe, name));
    return known.get(name);
  };
  const walk = (value, key) => {
    if (Array.isArray(value)) return value.map((one) => walk(one, key));
    if (typeof value === "string") return key.toLowerCase().endsWith("color") && value.startsWith("--") ? color(value) : value;
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, walk(one, name)]));
  };
  const found = walk(figure, "");
  found.layout.font.family = getComputedStyle(document.body).fontFamily;
  probe.remove();
  return found;
}

/** Return `--c2` or `--c2/16`, a token at 16%, as a color that needs no style sheet. */
function resolved(probe, name) {
  const [token, share] = name.split("/");
  probe.style.color = `var(${token})`;
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g);
  return `rgba(${red}, ${green}, ${blue}, ${share ? Number(share) / 100 : 1})`;
}

const MARKUP = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/[&<>]/g, (mark) => MARKUP[mark]);

/** Return words in lines of at most this many characters; a picture does not wrap its text. */
function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines;
}

/** Return the chart as shown, zoom included, on the page's background and under its title. */
async function png(chart) {
  const Plotly = await plotly();
  const plot = plotOf(chart);
  const { width, height } = plot.getBoundingClientRect();
  const title = plain(chart.querySelector("h3").textContent);
  const note = wrapped(plain(chart.querySelector("figcaption .meta").textContent), width / 6);
  const above = 40 + 15 * note.length;
  const { data, layout } = plot;
  const { paper_bgcolor, font } = themed({ layout: { paper_bgcolor: "--surface", font: { color: "--ink" } } }).layout;
  const head = { text: title, font: { ...font, size: 15, weight: 600 }, x: 0, xref: "paper", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 12 }, subtitle: { text: note.join("<br>"), font: { size: 11 } } };
  const whole = { ...layout, title: head, paper_bgcolor, width, height: height + above, margin: { ...layout.margin, t: layout.margin.t + above } };
  const svg = await Plotly.toImage({ data, layout: whole }, { format: "svg", width, height: height + above });
  const blob = await rastered(svg, width, height + above);
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${chart.dataset.chart}.png` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Return a picture as PNG. The content policy allows `data:` and not `blob:`, which Plotly itself uses. */
async function rastered(address, width, height) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: width * PNG_SCALE, height: height * PNG_SCALE });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

document.addEventListener("click", ({ target }) => {
  const button = target instanceof Element && target.closest('[data-act^="chart-"]');
  if (!button) return;
  const chart = button.closest("[data-chart]");
  if (button.dataset.act === "chart-png") png(chart);
  else resetZoom(chart);
});

let open = [];
document.addEventListener("htmx:beforeSwap", () => {
  open = [...document.querySelectorAll("[data-chart] details[open]")].map((one) => one.id);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  look();
});
new MutationObserver(look).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
look();
