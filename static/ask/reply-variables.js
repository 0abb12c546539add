// Variables of a quick reply: {customer} and {order id} are filled in before it is inserted. Other braces stay as they are.

import { inWords } from "../forms/schema-form.js";

const VARIABLE = /\{([\p{L}][\p{L}\p{N}_ -]{0,39})\}/gu;

/**
 * Return the names of a text's variables, each once, in their order.
 * @param {string} text
 */
export const variablesOf = (text) => [...new Set([...text.matchAll(VARIABLE)].map(([, name]) => name))];

/**
 * Return the text with these values; a variable without one stays.
 * @param {string} text
 * @param {Record<string, string>} values
 */
export const filled = (text, values) => text.replace(VARIABLE, (whole, name) => (Object.hasOwn(values, name) && values[name].trim() ? values[name] : whole));

/**
 * Show a field for each variable, with what is known of it.
 * @param {HTMLFormElement} form
 * @param {string} text
 * @param {Record<string, unknown>} known
 */
export function askFor(form, text, known) {
  const names = variablesOf(text);
  const fields = names.map((name) => {
    const [label, input] = [document.createElement("label"), document.createElement("input")];
    label.className = "f";
    Object.assign(input, { name, autocomplete: "off", value: Object.hasOwn(known, name) ? inWords(known[name]) : "" });
    label.append(name, input);
    return label;
  });
  form.querySelector("[data-fields]").replaceChildren(...fields);
  form.dataset.text = text;
  form.hidden = false;
  fields[0].querySelector("input").select();
}

/**
 * Return the text of the form with its values.
 * @param {HTMLFormElement} form
 */
export const answered = (form) => filled(form.dataset.text, /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form))));
