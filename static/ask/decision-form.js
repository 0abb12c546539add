// The typed part of an answer: a verdict on each call, an option, or the fields of a form. The server checks every decision
// again; this form says early what it would refuse. Values stay texts, so that a draft keeps them digit by digit.
// The agent wrote names, schemas and values: they are set as text, and cleaned before they are shown.

import { fieldIn, fieldsFor, inWords, textsIn } from "../forms/schema-form.js";
import { entriesOf } from "../forms/exact-json.js";
import { pathOf } from "../forms/form-plan.js";
import { bind } from "../shell/keys.js";
import { announce } from "../shell/toast.js";
import { visible } from "../shell/visible-text.js";
import { breakWords, changedIn, decisionOn, editOf, shapeOfCall } from "./call-edit.js";
import { Form } from "./form-fields.js";
import { keptEdit } from "./kept-edit.js";
import { filterOfLabels, needsFilter } from "./option-filter.js";
import { bindDigits, digitOf, DIGITS, make } from "./part-digits.js";
import { Standing } from "./standing-answer.js";

/**
 * @typedef {import("./call-edit.js").Call} Call
 * @typedef {import("./call-edit.js").CallDraft} CallDraft
 * @typedef {{id: string, label: string, description?: string}} Option
 * @typedef {{kind: string, calls?: Call[], options?: Option[], many?: boolean, other?: boolean, response_schema?: object, on_timeout?: any}} Typed
 * @typedef {{calls?: CallDraft[], chosen?: string[], other?: string, texts?: Record<string, string>, value?: Record<string, unknown>}} DecisionDraft
 */

const VERDICTS = [["approve", "Approve"], ["edit", "Edit"], ["reject", "Reject"]];
/** @type {[string, string][]} */
const VERDICT_KEYS = [["approve-call", "approve"], ["edit-call", "edit"], ["reject-call", "reject"]];

/**
 * Return the decision on a choice and what is wrong with it.
 * @param {Typed} typed
 * @param {string[]} chosen
 * @param {string} other
 */
export function choiceOf(typed, chosen, other) {
  const count = chosen.length + (other.trim() ? 1 : 0);
  const problem = count === 0 ? "Choose an option." : count > 1 && !typed.many ? "Choose one option." : "";
  return { decision: { chosen, ...(other.trim() ? { other } : {}) }, problem };
}

/**
 * Return what a draft decides, a line each, for who chooses between two.
 * @param {Typed} typed
 * @param {DecisionDraft | null} draft
 */
export function draftWords({ calls = [], options = [] }, draft) {
  const lines = (draft?.calls || []).map(({ id, verdict, texts = {}, reason = "" }) => {
    const call = calls.find((one) => one.id === id);
    if (!call) return "";
    const changed = verdict === "edit" ? changedIn(call, texts).map((name) => `${name}: ${texts[name]}`) : [];
    return [`${VERDICTS.find(([name]) => name === verdict)?.[1]} ${call.name}`, ...changed, verdict === "reject" ? reason : ""].filter(Boolean).join("; ");
  });
  const chosen = (draft?.chosen || []).map((id) => options.find((one) => one.id === id)?.label || id);
  const texts = Object.entries(draft?.texts || {}).filter(([, text]) => text !== "").map(([key, text]) => `${pathOf(key).join(" › ")}: ${text}`);
  return [...lines, ...chosen, draft?.other || "", ...texts].filter(Boolean);
}

class CallCard {
  /**
   * @param {Call} call
   * @param {number} number
   * @param {string | null} run null where no standing answer can be given
   * @param {boolean} runOnly whether one can hold in the run alone
   * @param {() => void} changed
   */
  constructor(call, number, run, runOnly, changed) {
    this.call = call;
    this.standing = new Standing(call, run || "", runOnly);
    const fits = !call.breaks?.length;
    this.mayStand = run !== null && !call.high_risk && fits;
    this.isAlone = run !== null && !this.mayStand;
    this.number = number;
    this.changed = changed;
    /** @type {Map<string, {words: string, text: string}>} */
    this.blamed = new Map();
    /** @type {CallDraft} */
    this.draft = { id: call.id };
    this.element = make("section", "callcard part");
    this.element.tabIndex = -1;
    this.element.setAttribute("aria-label", `Call ${number}: ${visible(call.name)}`);
    this.#build();
  }

  #build() {
    const head = make("div", "row wrap");
    const risk = make("small", this.call.high_risk ? "high-risk" : "", `${this.call.writes ? "writes" : "reads"} · ${this.call.high_risk ? "high" : "low"} risk`);
    head.append(make("span", "num mono", String(this.number)), make("b", "mono", visible(this.call.name)), risk);
    const seg = make("span", "seg push");
    seg.setAttribute("role", "radiogroup");
    seg.setAttribute("aria-label", `Your decision on call ${this.number}`);
    for (const [verdict, words] of VERDICTS) {
      const button = make("button", "", words);
      Object.assign(button, { type: "button" });
      button.setAttribute("role", "radio");
      button.dataset.verdict = verdict;
      button.append(" ", Object.assign(document.createElement("span"), { className: "not-s" }));
      /** @type {HTMLElement} */ (button.lastChild).dataset.cap = `${verdict}-call`;
      button.addEventListener("click", () => this.decide(verdict));
      seg.append(button);
    }
    head.append(seg);
    this.element.append(head);
    if (this.call.reason) {
      const why = make("p", "words", visible(this.call.reason));
      why.dir = "auto";
      this.element.append(why);
    }
    this.values = make("div", "values");
    this.element.append(this.values);
    this.reasonBox = make("label", "f");
    this.reasonBox.append(make("span", "", "Reason, which the agent gets as written"));
    this.reason = Object.assign(document.createElement("textarea"), { className: "voice", rows: 2, maxLength: 2000, dir: "auto" });
    this.reasonBox.append(this.reason);
    this.alone = make("p", "meta", this.call.high_risk ? "This tool is of high risk: standing answers are off." : "Standing answers are off for arguments that don't fit.");
    this.breaks = make("p", "bad words");
    this.breaks.dir = "auto";
    this.element.append(this.breaks, this.reasonBox, this.standing.element, this.alone);
    this.element.addEventListener("input", () => this.#typed());
    this.show();
  }

  #typed() {
    this.draft.reason = this.reason.value;
    if (this.draft.verdict === "edit") {
      this.draft.texts = textsIn(this.values);
      this.#mark();
    }
    this.changed();
  }

  decide(verdict) {
    if (verdict === "approve" && keptEdit(this, changedIn)) return;
    if (this.draft.verdict !== verdict) {
      this.draft = { ...this.draft, verdict };
      this.show();
    }
    this.values.querySelector("[data-take-back]")?.remove();
    if (verdict === "edit") /** @type {HTMLElement} */ (this.values.querySelector("[data-argument]"))?.focus();
    if (verdict === "reject") this.reason.focus();
    this.changed();
  }

  /** Draw the verdict: values to read, or fields to change. */
  show() {
    const { verdict, texts, reason = "" } = this.draft;
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (this.element.querySelectorAll("[data-verdict]"))) {
      const on = button.dataset.verdict === verdict;
      button.setAttribute("aria-checked", String(on));
      button.classList.toggle("on", on);
    }
    this.element.dataset.decided = verdict || "";
    this.reasonBox.hidden = verdict !== "reject";
    this.standing.element.hidden = verdict !== "approve" || !this.mayStand;
    this.alone.hidden = verdict !== "approve" || !this.isAlone;
    this.breaks.textContent = verdict === "approve"
      ? breakWords(this.call, "You approve them as they are, and the tool can refuse them.") : breakWords(this.call, "The arguments don't fit the tool's schema.");
    this.breaks.hidden = !this.breaks.textContent || verdict === "edit" || verdict === "reject";
    if (this.reason.value !== reason) this.reason.value = reason;
    const shape = shapeOfCall(this.call);
    if (verdict === "edit") {
      this.values.replaceChildren(fieldsFor(shape, texts || this.call.arguments || {}));
      this.draft.texts = textsIn(this.values);
      this.#mark();
      return;
    }
    const list = make("dl", "args");
    for (const [name, value] of entriesOf(this.call.arguments || {})) {
      const text = make("dd", "mono words", visible(inWords(value)));
      text.dir = "auto";
      for (const { words } of (this.call.breaks || []).filter((one) => one.name === name)) text.append(" ", make("small", "bad", visible(words)));
      list.append(make("dt", "mono", visible(name)), text);
    }
    this.values.replaceChildren(list.children.length ? list : make("p", "meta", "No arguments."));
  }

  /** Show the proposed value at every field that was changed, and why one does not fit. */
  #mark() {
    const changed = new Set(changedIn(this.call, this.draft.texts || {}));
    const { reasons } = editOf(this.call, this.draft, this.#blamedNow());
    for (const label of this.values.querySelectorAll("label.f")) {
      const name = /** @type {HTMLElement} */ (label.querySelector("[data-argument]")).dataset.argument;
      let was = /** @type {HTMLElement} */ (label.querySelector("[data-was]"));
      if (!was) {
        was = make("small", "was");
        was.dataset.was = "";
        label.append(was);
      }
      const given = this.call.arguments || {};
      was.replaceChildren(...(changed.has(name) ? [make("del", "mono", Object.hasOwn(given, name) ? visible(inWords(given[name])) : "nothing"), " proposed by the agent"] : []));
      was.hidden = !changed.has(name);
      this.#sayAt(label, reasons.get(name) || "");
    }
  }

  /** @param {Element} label @param {string} words */
  #sayAt(label, words) {
    let wrong = /** @type {HTMLElement} */ (label.querySelector("[data-wrong]"));
    if (!wrong) {
      wrong = make("small", "bad");
      wrong.dataset.wrong = "";
      label.append(wrong);
    }
    wrong.textContent = words;
    wrong.hidden = !words;
    label.querySelector("[data-argument]").setAttribute("aria-invalid", String(Boolean(words)));
  }

  /** Return why the server refused some arguments, of which each still has the refused text. */
  #blamedNow() {
    return new Map([...this.blamed].filter(([name, { text }]) => text === this.draft.texts?.[name]).map(([name, { words }]) => [name, words]));
  }

  /**
   * Show which arguments the server refuses now, and why.
   * @param {{path: (string | number)[], said: string}[]} places
   */
  blame(places) {
    this.blamed.clear();
    if (this.draft.verdict !== "edit") return;
    for (const { path, said } of places) {
      const argument = String(path[0] ?? "");
      this.blamed.set(argument, { words: visible(said), text: this.draft.texts?.[argument] });
    }
    this.#mark();
  }

  read() {
    const { decision, problem } = decisionOn(this.call, this.draft, this.number, this.#blamedNow());
    return { decision, problem: problem || (this.draft.verdict === "approve" ? this.standing.problem() : "") };
  }

  /** Return where what is missing or wrong is typed. */
  wrong() {
    const { verdict } = this.draft;
    if (verdict === "reject") return this.reason;
    if (verdict === "approve") return this.standing.most;
    const [wrong] = editOf(this.call, this.draft, this.#blamedNow()).reasons.keys();
    return verdict === "edit" ? fieldIn(this.values, wrong) : this.element;
  }

  /** @returns {CallDraft} */
  written() {
    const standing = this.draft.verdict === "approve" ? this.standing.draft() : undefined;
    return standing ? { ...this.draft, standing } : this.draft;
  }

  /** @param {CallDraft} draft */
  restore(draft) {
    const { verdict = "", reason = "", arguments: decided } = draft;
    const texts = draft.texts || (decided && Object.fromEntries(Object.entries(decided).map(([name, one]) => [name, inWords(one)])));
    this.draft = { id: this.call.id, verdict, reason, ...(texts && verdict === "edit" ? { texts, ...(decided && { arguments: decided }) } : {}) };
    this.standing.restore(draft.standing);
    this.show();
  }
}

class Approval {
  /**
   * @param {HTMLElement} box
   * @param {Typed} typed
   * @param {() => void} changed
   */
  constructor(box, typed, changed) {
    const runOnly = "runOnly" in box.dataset; // with verifier access
    const run = "alone" in box.dataset || (runOnly && !box.dataset.run) ? null : box.dataset.run || "";
    this.cards = typed.calls.map((call, place) => new CallCard(call, place + 1, run, runOnly, changed));
    box.append(...this.cards.map((card) => card.element));
    for (const [id, verdict] of VERDICT_KEYS) bind(id, () => this.#press(verdict));
    if (this.cards.some((card) => card.mayStand)) bind("stand", () => this.#stand());
    bindDigits((place) => this.cards[place]?.element, (card) => card.focus());
  }

  /** Decide on the card in use, else on the first that is not decided, and go on to the next one. */
  #press(verdict) {
    const at = document.activeElement?.closest(".callcard");
    const card = this.cards.find((one) => one.element === at) || this.cards.find((one) => !one.draft.verdict) || this.cards[0];
    card.decide(verdict);
    if (verdict !== "approve") return;
    const { problem } = card.read();
    if (problem) {
      announce(problem);
      card.wrong()?.focus();
      return;
    }
    const next = this.cards.find((one) => !one.draft.verdict);
    const as = card.call.breaks?.length ? ", although its arguments don't fit" : "";
    announce(next ? `Call ${card.number} approved${as}. Call ${next.number} is next.` : `Call ${card.number} approved${as}. All calls are decided.`);
    (next || card).element.focus();
    (next || card).element.scrollIntoView({ block: "nearest" });
  }

  /** Switch the standing answer of the approved call in use, else of the last approved one. */
  #stand() {
    const at = document.activeElement?.closest(".callcard");
    const approved = this.cards.filter((one) => one.draft.verdict === "approve" && one.mayStand);
    const card = approved.find((one) => one.element === at) || approved.at(-1);
    card?.standing.on.click();
    card?.standing.on.focus();
  }

  blame(places) {
    for (const card of this.cards) card.blame(places.filter(({ call }) => call === card.call.id));
  }

  standing() {
    return this.cards.flatMap((card) => (card.draft.verdict === "approve" ? card.standing.read() : []));
  }

  /** @returns {DecisionDraft | null} */
  draft() {
    const calls = this.cards.map((card) => card.written()).filter((one) => one.verdict);
    return calls.length ? { calls } : null;
  }

  /** @param {DecisionDraft} draft */
  restore(draft) {
    for (const one of draft.calls || []) this.cards.find((card) => card.call.id === one.id)?.restore(one);
  }

  read() {
    const all = this.cards.map((card) => card.read());
    const problems = all.map((one) => one.problem).filter(Boolean);
    const more = problems.length > 1 ? ` ${problems.length - 1} more ${problems.length > 2 ? "calls are" : "call is"} not decided or not right.` : "";
    return { decision: { calls: all.map((one) => one.decision).filter(({ verdict }) => verdict) }, problem: problems.length ? `${problems[0]}${more}` : "" };
  }

  wrong() {
    return this.cards.find((card) => card.read().problem)?.wrong();
  }
}

class Choice {
  /**
   * @param {HTMLElement} box
   * @param {Typed} typed
   * @param {() => void} changed
   */
  constructor(box, typed, changed) {
    this.typed = typed;
    const group = make("fieldset", "options sheet");
    group.append(make("legend", "vh", typed.many ? "Choose one or more" : "Choose one"));
    this.inputs = typed.options.map((option, place) => this.#option(group, option, place + 1));
    if (typed.other) {
      const label = make("label", "option part");
      label.append(make("span", "", "Other"));
      this.other = Object.assign(document.createElement("input"), { maxLength: 2000, placeholder: "Type an answer. The agent gets it as text.", dir: "auto" });
      label.append(this.other);
      if (this.inputs.length < DIGITS.length) label.append(digitOf(this.inputs.length + 1, "push"));
      group.append(label);
      this.other.addEventListener("input", () => { if (!typed.many && this.other.value.trim()) for (const one of this.inputs) one.checked = false; });
    }
    if (needsFilter(this.inputs.length)) {
      group.querySelector("legend").after(filterOfLabels(this.inputs.map((input) => input.closest("label")), true));
    }
    box.append(group);
    group.addEventListener("input", changed);
    const shown = () => [...this.inputs.filter((input) => !input.closest("label").hidden), ...(this.other ? [this.other] : [])];
    bindDigits((place) => shown()[place], (input) => { input?.click(); input?.focus(); });
  }

  #option(group, option, number) {
    const label = make("label", "option part");
    const input = Object.assign(document.createElement("input"), { type: this.typed.many ? "checkbox" : "radio", name: "option", value: option.id });
    const words = make("span", "words", visible(option.label));
    words.dir = "auto";
    label.dataset.words = [option.label, option.id, option.description || ""].join(" ");
    label.append(input, words, make("small", "mono", visible(option.id)));
    if (option.description) label.append(make("small", "", visible(option.description)));
    if (number <= DIGITS.length) label.append(digitOf(number, "push"));
    group.append(label);
    input.addEventListener("change", () => { if (this.other && !this.typed.many) this.other.value = ""; });
    return input;
  }

  /** @returns {DecisionDraft | null} */
  draft() {
    const { decision } = this.read();
    return decision.chosen.length || decision.other ? decision : null;
  }

  /** @param {DecisionDraft} draft */
  restore({ chosen = [], other = "" }) {
    for (const one of this.inputs) one.checked = chosen.includes(one.value);
    if (this.other) this.other.value = other;
  }

  read() {
    return choiceOf(this.typed, this.inputs.filter((one) => one.checked).map((one) => one.value), this.other?.value || "");
  }

  wrong() {
    return this.inputs.find((input) => input.checked) || this.inputs[0];
  }

  blame() {} // its own checks are all that a choice has
}

const PARTS = { approval: Approval, choice: Choice, form: Form };

/**
 * Build the typed part of an answer in `box`; `onChange(decision, problem, standing)` receives every change.
 * @param {HTMLElement} box
 * @param {Typed} typed
 * @param {(decision: object, problem: string, standing: object[]) => void} onChange
 */
export function startDecision(box, typed, onChange) {
  const tell = () => {
    const { decision, problem } = part.read();
    onChange(decision, problem, part instanceof Approval ? part.standing() : []);
  };
  box.replaceChildren(); // the fields of a page without scripts
  const part = new PARTS[typed.kind](box, typed, tell);
  tell();
  return {
    draft: () => part.draft(),
    words: (draft) => draftWords(typed, draft),
    /**
     * Show what the server refused at its fields, and return the first of them.
     * @param {{call: string, path: (string | number)[], words: string, said: string}[]} places
     * @returns {HTMLElement | undefined}
     */
    blame(places) {
      part.blame(places);
      tell();
      return part.wrong();
    },
    /** Show all that does not fit at its fields. */
    showWrong: () => { if (part instanceof Form) part.showWrong(); },
    /** Return where the first problem is. @returns {HTMLElement | undefined} */
    wrong: () => part.wrong(),
    /** Return where deciding begins, or goes on. @returns {HTMLElement} */
    first: () => part.wrong() || box.querySelector(".callcard[tabindex], input, [data-argument]") || box,
    /** @param {DecisionDraft | null} draft */
    restore(draft) {
      if (draft) part.restore(draft);
      tell();
    },
  };
}

