// Other versions of a text, from another tab or device, beside the one in the form; a person chooses.

import { beganWith } from "../forms/drafts.js";
import { writeExact } from "../forms/exact-json.js";
import { announce } from "../shell/toast.js";
import { visible } from "../shell/visible-text.js";

/** @typedef {import("../forms/drafts.js").Words & {version?: number}} Version */

export class OtherVersions {
  /**
   * @param {HTMLFormElement} form
   * @param {object} own
   * @param {() => any} own.read
   * @param {(words: any) => void} own.put
   * @param {(decision: any) => string[]} own.words
   * @param {(version: number) => void} own.chosen gets the version of the other text
   * @param {(waits: boolean) => void} own.waits
   */
  constructor(form, own) {
    this.box = /** @type {HTMLElement} */ (form.querySelector("[data-other]"));
    this.own = own;
    this.offered = [];
    this.box.addEventListener("click", (event) => {
      const what = event.target instanceof Element && event.target.closest("[data-choose]")?.dataset.choose;
      if (what) this.#choose(what);
    });
  }

  /** @param {any} other @param {string} why */
  offer(other, why) {
    this.offered.push({ other, why });
    this.#show();
  }

  #show() {
    const [first] = this.offered;
    this.box.hidden = !first;
    this.own.waits(Boolean(first));
    if (!first) return;
    this.box.querySelector("[data-say]").textContent = `${first.why} The other version:`;
    const calls = (first.other.calls || []).map((call) => `${call.name}(${writeExact(call.arguments)})`);
    const lines = [first.other.text, ...calls, ...this.own.words(first.other.decision)];
    this.box.querySelector("[data-text]").textContent = visible(lines.filter(Boolean).join("\n"));
    const both = /** @type {HTMLElement} */ (this.box.querySelector('[data-choose="both"]'));
    both.hidden = Boolean(first.other.decision && this.own.read().decision); // an ask has one decision
    announce(`${first.why} Choose a version.`);
  }

  #choose(what) {
    const { other } = this.offered.shift();
    const mine = this.own.read();
    if (what === "other") this.own.put(other);
    if (what === "both") this.own.put({ text: [mine.text, other.text].filter(Boolean).join("\n\n"), calls: [...mine.calls, ...(other.calls || [])], decision: mine.decision || other.decision, drafted: [mine.drafted, other.drafted].reduce(beganWith) });
    this.#show();
    this.own.chosen(other.version || 0);
  }
}
