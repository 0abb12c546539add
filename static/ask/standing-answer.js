// A standing answer beside an approved call: calls like it are approved ahead, for some hours, up to a count. Owns its fields and
// what is sent of them; the server checks it again. The agent wrote names and values: they are set as text, and cleaned.

import { inWords } from "../forms/schema-form.js";
import { entriesOf, ordered } from "../forms/exact-json.js";
import { visible } from "../shell/visible-text.js";
import { make } from "./part-digits.js";

/**
 * Return which calls a standing answer covers, in words.
 * @param {{equal: string[], free: string[], further: boolean}} how the names that must be equal, those with any value, and whether
 *   calls can have others
 */
export function coverWords({ equal, free, further }) {
  const list = (names) => names.map(visible).join(", ");
  if (further) return equal.length ? `Covers each call with the same ${list(equal)}, whatever other arguments it has.` : "Covers each call of this tool, with any arguments.";
  if (!equal.length && !free.length) return "Covers calls without arguments only.";
  const open = free.length ? `${list(free)} can have any value or none. ` : "";
  return `${open}A call with other arguments than these comes to people.`;
}

/** An approval of calls like one, ahead: for some hours, up to a count, with the arguments that must be equal. */
export class Standing {
  /** @param {import("./call-edit.js").Call} call @param {string} run @param {boolean} runOnly whether it can hold in the run alone */
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
    const allowed = make("label", "row wrap");
    this.further = Object.assign(document.createElement("input"), { type: "checkbox" });
    allowed.append(this.further, make("span", "", "Approve calls with further arguments, too"));
    this.covers = make("p", "meta words");
    this.covers.dir = "auto";
    this.more.append(line, list, allowed, this.covers);
    this.element.append(label, this.more);
    this.element.addEventListener("input", () => this.#show());
    this.#show();
  }

  #select(options, name) {
    const select = document.createElement("select");
    for (const [value, words] of options) select.append(new Option(words, value));
    select.setAttribute("aria-label", name);
    return select;
  }

  #show() {
    this.more.hidden = !this.on.checked;
    this.covers.textContent = coverWords({ equal: this.#names(true), free: this.#names(false), further: this.further.checked });
  }

  /** @param {boolean} equal @returns {string[]} */
  #names(equal) {
    return this.sames.filter(({ same }) => same.checked === equal).map(({ name }) => name);
  }

  /** Return what was chosen, for the draft; nothing while it is off. */
  draft() {
    if (!this.on.checked) return undefined;
    return { hours: this.hours.value, run: this.run.value, most: this.most.value, same: this.#names(true), further: this.further.checked };
  }

  restore(draft) {
    this.on.checked = Boolean(draft);
    if (draft) this.#restore(draft);
    this.#show();
  }

  #restore(draft) {
    this.further.checked = Boolean(draft.further);
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
      tool: this.call.name, arguments: ordered(equal), ...(this.further.checked ? {} : { any_value: this.#names(false) }), hours: Number(this.hours.value),
      at_most: Number(this.most.value), ...(this.run.value ? { run: this.run.value } : {}),
    }];
  }
}
