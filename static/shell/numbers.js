// Counts as people read them, the same as `people/text/in_words.py` writes them.

/**
 * Return a count with thousands separators: "1,234".
 * @param {number} count
 */
export const grouped = (count) => Number(count).toLocaleString("en-US");

/**
 * Return a count with its noun: "1 step", "1,234 steps".
 * @param {number} count
 * @param {string} noun both forms, "step,steps"
 */
export function counted(count, noun) {
  const [one, many] = noun.split(",");
  return `${grouped(count)} ${count === 1 ? one : many}`;
}
