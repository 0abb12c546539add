// A standing answer beside an approved call: calls like it are approved ahead, for some hours, up to a count. Owns its fields and
// what is sent of them; the server checks it again. The agent wrote names and values: they are set as text, and cleaned.

import { inWords } from "../forms/schema-form.js";
import { entriesOf, ordered } from "../forms/exact-json.js";
import { visible } from "../shell/visible-text.js";

const make = (tag, css = "", text = "") => Object.assign(document.createElement(tag), { className: css, textContent: text });

/** An approval of calls like one, ahead: for some hours, up to a count, with the arguments that must be equal. */
export class Standing {
  /** @param {import("./decision-form.js").Call} call @param {string} run @param {boolean} runOnly whether it can hold in the run alone */
  constructor(call, run, runOnly) {
    this.call = call;
    this.element = make("div", "standing-box");
    const label = make("label", "row wrap");
    this.on = Object.assign(document.createElement("input"), { type: "checkbox" });
    const cap = make("span", "not-s");
    cap.dataset.cap = "stand";
    label.append(this.on, make("b", "", "Approve calls like this, too"), cap);
    this.more = make("div", "more");
    this.hours = this.#select([["1", "for 1 hour"], ["8", "for 8 hours"], ["24", "for 24 hours"]], "How long");
    this.run = this.#select([...(run ? [[run, "in this run"]] : []), ...(runOnly ? [] : [["", "in this project"]])], "Where");
    this.most = Object.assign(document.createElement("input"), { inputMode: "numeric", value: "20", size: 4, className: "mono" });
    this.most.setAttribute("aria-label", "How many calls at most");
    const line = make("p", "row wrap");
    line.append(this.hours, this.run, make("span", "", "at most"), this.most, make("span", "", "calls with:"));
    const list = make("div", "sames");
    this.sames = entriesOf(call.arguments || {}).map(([name, value]) => {
      const [row, same] = [make("label", "row wrap"), Object.assign(document.createElement("input"), { type: "checkbox", checked: true })];
      row.append(same, make("span", "mono", visible(name)), make("span", "mono cut-text", visible(inWords(value))), make("small", "", "the same"));
      list.append(row);
      return { name, value, same };
    });
    this.more.append(line, list);
    this.element.append(label, this.more);
    this.element.addEventListener("input", () => { this.more.hidden = !this.on.checked; });
    this.more.hidden = true;
  }

  #select(options, name) {
    const select = document.createElement("select");
    for (const [value, words] of options) select.append(new Option(words, value));
    select.setAttribute("aria-label", name);
    return select;
  }

  /** Return what was chosen, for the draft; nothing while it is off. */
  draft() {
    if (!this.on.checked) return undefined;
    return { hours: this.hours.value, run: this.run.value, most: this.most.value, same: this.sames.filter(({ same }) => same.checked).map(({ name }) => name) };
  }

  restore(draft) {
    this.on.checked = Boolean(draft);
    this.more.hidden = !draft;
    if (!draft) return;
    [this.hours.value, this.run.value, this.most.value] = [draft.hours, draft.run, draft.most];
    for (const { name, same } of this.sames) same.checked = draft.same.includes(name);
  }

  /** Return what is wrong with the count, or nothing. */
  problem() {
    const fits = /^[1-9]\d{0,4}$/.test(this.most.value.trim()) || this.most.value.trim() === "100000";
    return this.on.checked && !fits ? "Enter how many calls like this are approved at most, from 1 to 100,000." : "";
  }

  /** @returns {object[]} */
  read() {
    if (!this.on.checked || this.call.high_risk) return [];
    const equal = this.sames.filter(({ same }) => same.checked).map(({ name, value }) => [name, value]);
    return [{
      tool: this.call.name, arguments: ordered(equal), hours: Number(this.hours.value),
      at_most: Number(this.most.value), ...(this.run.value ? { run: this.run.value } : {}),
    }];
  }
}
