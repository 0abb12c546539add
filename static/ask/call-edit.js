// The decision on one proposed call: which fields it has, what an edit of them says, and what does not fit. Pure.
// The agent wrote names, schemas and values; an argument that no one touched stays the value that it was.

import { entriesOf, isNumber, ordered } from "../forms/exact-json.js";
import { isTextOf, read, shapeOf } from "../forms/schema-form.js";
import { visible } from "../shell/visible-text.js";

/**
 * @typedef {{id: string, name: string, arguments?: Record<string, unknown>, schema?: object, reason?: string, writes?: boolean, high_risk?: boolean,
 *   breaks?: {name: string, words: string}[]}} Call
 * @typedef {{id: string, verdict?: string, texts?: Record<string, string>, arguments?: Record<string, unknown>, reason?: string, standing?: any}} CallDraft
 */

const TYPES = { boolean: "boolean", object: "object" };
const NULL = { type: "null", description: "text; null as the agent sent it" };

/**
 * Return the shape of a call's fields: those of its schema, and those that the agent sent beside it.
 * @param {{schema?: object, arguments?: Record<string, unknown>}} call
 */
export function shapeOfCall({ schema, arguments: given = {} }) {
  const shape = shapeOf(schema || {});
  const beside = entriesOf(given).filter(([name]) => !Object.hasOwn(shape.properties, name)).map(([name, value]) => [
    name, value === null ? NULL : { type: Array.isArray(value) ? "array" : isNumber(value) ? "number" : TYPES[typeof value] || "string" }]);
  return { ...shape, properties: ordered([...entriesOf(shape.properties), ...beside]) };
}

/**
 * Return the decision on one call and what is wrong with it.
 * @param {Call} call
 * @param {CallDraft} draft
 * @param {number} number
 * @param {Map<string, string>} [blamed]
 * @returns {{decision: {id: string, verdict: string, reason?: string, arguments?: object}, problem: string}}
 */
export function decisionOn(call, draft, number, blamed) {
  const { verdict = "", reason = "" } = draft;
  const said = { id: call.id, verdict };
  if (!verdict) return { decision: said, problem: `Decide call ${number}: ${visible(call.name)}.` };
  if (verdict === "reject") {
    return { decision: { ...said, reason }, problem: reason.trim() ? "" : `Give a reason for rejecting call ${number}. The agent gets it as written.` };
  }
  if (verdict !== "edit") return { decision: said, problem: "" };
  const { given, reasons } = editOf(call, draft, blamed);
  if (reasons.size) return { decision: { ...said, arguments: given }, problem: `Call ${number}: ${[...reasons.values()].join("; ")}.` };
  const changed = changedIn(call, draft.texts || {}).length > 0;
  return { decision: { ...said, arguments: given }, problem: changed ? "" : `Change a value of call ${number}, or approve it.` };
}

/** Return the values that the fields of a call began with: those of an earlier decision, else those of the agent. */
const begunOf = (call, draft) => draft.arguments || call.arguments || {};

/**
 * Return the arguments of an edit, and why some don't fit, by name. The server has checked those that no one touched.
 * @param {Call} call
 * @param {CallDraft} draft
 * @param {Map<string, string>} [blamed] why the server refused some, by name
 */
export function editOf(call, draft, blamed = new Map()) {
  const { texts = {} } = draft;
  const { arguments: given, reasons } = read(texts, shapeOfCall(call), begunOf(call, draft));
  const touched = new Set(changedIn(call, texts));
  for (const { name, words } of call.breaks || []) if (name && !touched.has(name) && !reasons.has(name)) reasons.set(name, words);
  for (const [name, words] of blamed) if (!reasons.has(name)) reasons.set(name, words);
  return { given, reasons };
}

/** Return what is said of arguments that break their tool's schema. @param {Call} call @param {string} rest */
export const breakWords = ({ breaks = [] }, rest) => (breaks.length ? `${breaks.map(({ words }) => visible(words)).join("; ")}. ${rest}` : "");

/**
 * Return the names of the arguments whose text is not that of the proposed value.
 * @param {Call} call
 * @param {Record<string, string>} texts
 */
export function changedIn(call, texts) {
  const given = call.arguments || {};
  return entriesOf(shapeOfCall(call).properties).map(([name]) => name).filter((name) => !isTextOf(texts[name] ?? "", Object.hasOwn(given, name) ? given[name] : ""));
}
