// The one map of keys: it feeds the handlers, every printed <kbd>, the key line, the sheet (?), the command palette and docs/keys.md.
// A command has the same key on every page. `tests/static/keys.test.mjs` holds that, and `node tools/keys.mjs` writes the docs.

/**
 * @typedef {object} Key
 * @property {string} id
 * @property {string[]} keys spellings, the printed one first: "j", "Ctrl+Enter" or the pair "g q"
 * @property {string} words what it does
 * @property {string} page "*" or names separated by spaces
 * @property {string} [when] when it works, if another command of the page has the key otherwise; that one comes after it
 * @property {boolean} [first] whether it comes before those of the page
 * @property {boolean} [line] whether the key line names it
 * @property {boolean} [inField] whether it works in fields too
 * @property {boolean} [onlyField] whether it works in fields alone
 */

const LISTS = "home queue episodes compare curriculum reviews runs run fork tree campaigns campaign";
const STEPS = "live ask replay review";
const REPLAYED = "replay review";
// brackets are typed by AltGr on many keyboards, so the arrows with Shift do the same
const [NEXT, PREVIOUS] = [["j", "ArrowRight"], ["k", "ArrowLeft"]];
const [FAR_NEXT, FAR_PREVIOUS] = [["]", "Shift+ArrowRight"], ["[", "Shift+ArrowLeft"]];

/** Keys that mean the same on every page, each with how the words of its commands begin. */
export const EVERYWHERE = {
  "j": /^next /, "k": /^previous /, "ArrowRight": /^next /, "ArrowLeft": /^previous /,
  "]": /^next /, "[": /^previous /, "Shift+ArrowRight": /^next /, "Shift+ArrowLeft": /^previous /,
  "Home": /^first/, "End": /^last/, "Enter": /open/, "Escape": /^(leave|clear)/,
  "Ctrl+Enter": /^(send|save|build|give|next review)/, "Ctrl+Shift+Enter": /^(send|save|give|next review)/,
  "z": /^(undo|withdraw)/, "o": /^(open all|show group)/, ".": /^show more/,
};

/** @param {string} id @param {string} words @param {(n: number) => string} keyOf @param {string} page @param {string} [when] @returns {Key[]} */
const numbered = (id, words, keyOf, page, when = "") => [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => (
  { id: `${id}-${n}`, keys: [keyOf(n)], words: `${words} ${n}`, page, line: id === "label" && n === 1, ...(when && { when }) }));

/** @type {Key[]} asked for after a verdict */
const REASONS = [1, 2, 3].map((n) => ({ id: `reason-${n}`, keys: [`${n}`], words: `give reason ${n}, then next`, page: "review", line: n === 1, when: "with the focus in its panel" }));

/** @type {Key[]} */
export const KEYS = [
  { id: "go-home", keys: ["g h"], words: "home", page: "*" },
  { id: "go-queue", keys: ["g q"], words: "queue", page: "*" },
  { id: "newest-ask", keys: ["g a"], words: "newest ask", page: "*" },
  { id: "go-episodes", keys: ["g e"], words: "episodes", page: "*" },
  { id: "go-review", keys: ["g r"], words: "review", page: "*" },
  { id: "go-runs", keys: ["g u"], words: "runs", page: "*" },
  { id: "go-exports", keys: ["g x"], words: "exports", page: "*" },
  { id: "go-connect", keys: ["g o"], words: "connect", page: "*" },
  { id: "go-curriculum", keys: ["g c"], words: "curriculum", page: "*" },
  { id: "go-metrics", keys: ["g m"], words: "metrics", page: "*" },
  { id: "next", keys: ["Shift+N"], words: "claim next ask", page: "*", line: true },
  { id: "duty", keys: ["Shift+A"], words: "switch Available/Away", page: "*" },
  { id: "undo-answer", keys: ["z"], words: "undo what you sent", page: "*", line: true, first: true, when: "while it is held" },
  { id: "search", keys: ["/"], words: "search", page: "campaigns queue episodes live replay", line: true },

  { id: "down", keys: ["j"], words: "next row", page: LISTS, line: true },
  { id: "up", keys: ["k"], words: "previous row", page: LISTS, line: true },
  { id: "top", keys: ["Home"], words: "first row", page: LISTS },
  { id: "bottom", keys: ["End"], words: "last row", page: LISTS },
  { id: "take", keys: ["Enter"], words: "claim and open", page: "home queue", line: true, when: "for who may answer" },
  { id: "open", keys: ["Enter"], words: "open", page: "home queue episodes compare curriculum runs run fork tree campaigns campaign", line: true },
  { id: "claim", keys: ["c"], words: "claim", page: "home queue ask review pair", line: true },
  { id: "release-row", keys: ["r"], words: "release", page: "home queue", line: true },
  { id: "pass-row", keys: ["p"], words: "decline", page: "queue" },
  { id: "hand-row", keys: ["u", "Shift+T"], words: "transfer", page: "queue" },
  { id: "unfold", keys: ["o"], words: "show group", page: "home queue" },
  { id: "choose", keys: ["x"], words: "select", page: "queue episodes", line: true },
  { id: "choose-down", keys: ["Shift+J"], words: "extend selection down", page: "queue episodes" },
  { id: "choose-up", keys: ["Shift+K"], words: "extend selection up", page: "queue episodes" },
  { id: "approve-chosen", keys: ["a"], words: "approve selected calls", page: "queue", line: true },
  { id: "approve-alike", keys: ["y"], words: "approve calls like the selected ones", page: "queue", line: true },
  { id: "choose-all", keys: ["Shift+X"], words: "select all that match", page: "episodes" },
  { id: "bulk", keys: ["b"], words: "bulk actions", page: "queue episodes" },
  { id: "bulk-review", keys: ["q"], words: "queue for review", page: "episodes live", line: true },
  { id: "bulk-label", keys: ["l"], words: "label", page: "episodes" },
  { id: "bulk-compare", keys: ["c"], words: "compare", page: "episodes run", line: true },
  { id: "bulk-export", keys: ["e"], words: "export", page: "episodes run" },
  { id: "run-after", keys: FAR_NEXT, words: "next run", page: "run", line: true },
  { id: "run-before", keys: FAR_PREVIOUS, words: "previous run", page: "run" },
  { id: "numbers", keys: ["v"], words: "numbers of all charts", page: "run", line: true },
  { id: "page-after", keys: FAR_NEXT, words: "next page", page: "queue episodes", line: true },
  { id: "page-before", keys: FAR_PREVIOUS, words: "previous page", page: "queue episodes" },
  { id: "differ-after", keys: FAR_NEXT, words: "next difference", page: "compare", line: true },
  { id: "differ-before", keys: FAR_PREVIOUS, words: "previous difference", page: "compare" },
  { id: "filters", keys: ["f"], words: "filters", page: "queue episodes" },
  { id: "sort", keys: ["s"], words: "sort", page: "queue episodes" },
  { id: "columns", keys: ["v"], words: "columns", page: "episodes" },
  { id: "views", keys: ["Shift+V"], words: "saved views", page: "queue episodes", line: true },
  { id: "show-new", keys: ["."], words: "show more rows", page: "home queue episodes" },
  { id: "unselect", keys: ["Escape"], words: "clear selection", page: LISTS },

  { id: "hold", keys: ["h"], words: "hold a phase", page: "curriculum", line: true },
  { id: "copy-snapshot", keys: ["i"], words: "copy snapshot ID", page: "curriculum", line: true },
  { id: "turns-after", keys: FAR_NEXT, words: "next step's generations", page: "curriculum", line: true },
  { id: "turns-before", keys: FAR_PREVIOUS, words: "previous step's generations", page: "curriculum", line: true },
  { id: "build", keys: ["Ctrl+Enter"], words: "build export", page: "exports", line: true, inField: true },
  { id: "save", keys: ["Ctrl+Enter"], words: "save", page: "desk curriculum", line: true, inField: true },

  { id: "send", keys: ["Ctrl+Enter"], words: "send and next", page: "ask", line: true, inField: true },
  { id: "send-watch", keys: ["Ctrl+Shift+Enter"], words: "send and watch", page: "ask", line: true, inField: true },
  { id: "send-link", keys: ["Ctrl+Enter"], words: "send", page: "link", line: true, inField: true },
  { id: "approve-call", keys: ["a"], words: "approve call", page: "ask link", line: true },
  { id: "edit-call", keys: ["e"], words: "edit call", page: "ask link", line: true, when: "while calls are decided" },
  { id: "reject-call", keys: ["x"], words: "reject call", page: "ask link", line: true },
  { id: "stand", keys: ["y"], words: "approve calls like this", page: "ask", line: true, when: "while calls are decided" },
  ...numbered("part", "go to call or field, or choose option", (n) => `${n}`, "ask link", "with the focus in the decision"),
  { id: "decision", keys: ["g d"], words: "decision", page: "ask link", line: true },
  { id: "filter-options", keys: ["/"], words: "filter options", page: "ask link", line: true, when: "with more than nine options" },
  { id: "insert-call", keys: ["i"], words: "insert call", page: "ask", line: true },
  { id: "decide-all", keys: ["b"], words: "answer or decide all equal asks", page: "ask" },
  { id: "write", keys: ["w"], words: "write answer", page: "ask" },
  { id: "question-down", keys: ["PageDown"], words: "question further down", page: "ask", line: true, inField: true, onlyField: true },
  { id: "question-up", keys: ["PageUp"], words: "question further up", page: "ask", inField: true, onlyField: true },
  { id: "draft", keys: ["d"], words: "model draft, again: insert it", page: "ask", line: true },
  { id: "redraft", keys: ["Shift+D"], words: "new draft with a hint", page: "ask" },
  { id: "replies", keys: [";"], words: "quick replies", page: "ask", line: true },
  { id: "similar", keys: ["h"], words: "earlier answers or decisions", page: "ask", line: true },
  { id: "tables", keys: ["t"], words: "tables", page: "ask replay" },
  { id: "verifier", keys: ["v"], words: "verifier text", page: "ask", line: true },
  { id: "hand-up", keys: ["u", "Shift+T"], words: "transfer", page: "ask" },
  { id: "hand-model", keys: ["l"], words: "send to model", page: "ask" },
  { id: "amend", keys: ["e"], words: "edit answer", page: "ask", line: true },
  { id: "take-back", keys: ["z"], words: "withdraw answer", page: "ask", line: true },
  { id: "tag-needed", keys: ["1"], words: "toggle: question was needed", page: "ask" },
  { id: "tag-answerable", keys: ["2"], words: "toggle: question was answerable", page: "ask" },
  { id: "tag-late", keys: ["3"], words: "toggle: asked too late", page: "ask" },
  { id: "pass", keys: ["p"], words: "decline", page: "ask" },
  { id: "release", keys: ["r"], words: "release", page: "ask" },
  { id: "keep", keys: ["y"], words: "save as annotation", page: "ask", line: true },
  { id: "discard", keys: ["n"], words: "discard", page: "ask", line: true },
  { id: "quit", keys: ["Escape"], words: "leave editing", page: "ask", when: "while an answer is edited" },
  { id: "to-list", keys: ["Escape"], words: "leave the ask for the list", page: "ask" },

  { id: "accept", keys: ["a"], words: "accept", page: "review", line: true },
  { id: "reject", keys: ["x"], words: "reject", page: "review", line: true },
  ...numbered("failure", "reject, failure type", (n) => `x ${n}`, "review"),
  { id: "save-here", keys: ["Ctrl+Enter", "Ctrl+Shift+Enter"], words: "save this text or label", page: "review", line: true, inField: true, when: "in its field" },
  { id: "onward", keys: ["Ctrl+Enter", "Ctrl+Shift+Enter"], words: "next review", page: "review pair", line: true, inField: true, when: "once the verdict or answer is given" },
  { id: "complete", keys: ["Ctrl+Enter"], words: "give verdict, then next", page: "review", line: true, inField: true },
  { id: "complete-stay", keys: ["Ctrl+Shift+Enter"], words: "give verdict and stay", page: "review", line: true, inField: true },
  { id: "prefer-a", keys: ["a"], words: "A is better", page: "pair", line: true },
  { id: "prefer-b", keys: ["b"], words: "B is better", page: "pair", line: true },
  { id: "prefer-equal", keys: ["e", "="], words: "A and B are equal", page: "pair", line: true },
  { id: "prefer-neither", keys: ["n"], words: "neither is good", page: "pair", line: true },
  { id: "prefer-next", keys: ["Ctrl+Enter"], words: "give answer, then next", page: "pair", line: true, inField: true },
  { id: "prefer-stay", keys: ["Ctrl+Shift+Enter"], words: "give answer and stay", page: "pair", inField: true },
  { id: "undo-pair", keys: ["z"], words: "undo answer", page: "pair", line: true },
  ...REASONS,
  ...[1, 2, 3, 4, 5, 6, 7].map((n) => ({ id: `ruling-${n}`, keys: [`${n}`], words: `choose ruling ${n}`, page: "case", line: n === 1, when: "with the focus in its panel" })),
  { id: "ruling", keys: ["g d"], words: "ruling", page: "case", line: true },
  { id: "give-ruling", keys: ["Ctrl+Enter"], words: "give ruling", page: "case", line: true, inField: true },
  ...numbered("label", "label", (n) => `${n}`, "review"),
  { id: "next-value", keys: ["v"], words: "label the next value of the step", page: "review" },
  { id: "previous-value", keys: ["Shift+V"], words: "label the previous value", page: "review" },
  { id: "letters", keys: ["t"], words: "select letters of the value", page: "review" },
  { id: "whole-step", keys: ["Escape"], words: "clear the selected part", page: "review" },
  { id: "should-have", keys: ["w"], words: "should have done", page: "review", line: true },
  { id: "prove", keys: ["y"], words: "prove a correction", page: "review replay" },
  { id: "note", keys: ["n"], words: "note", page: "review" },
  { id: "verdict", keys: ["g v"], words: "verdict", page: "review" },
  { id: "change-verdict", keys: ["e"], words: "change verdict", page: "review", line: true },
  { id: "undo", keys: ["z"], words: "undo label or note", page: "review" },
  { id: "decline-review", keys: ["p"], words: "decline", page: "review" },

  { id: "step-down", keys: NEXT, words: "next step", page: STEPS, line: true },
  { id: "step-up", keys: PREVIOUS, words: "previous step", page: STEPS, line: true },
  { id: "mark-down", keys: FAR_NEXT, words: "next write, ask or error", page: STEPS, line: true },
  { id: "mark-up", keys: FAR_PREVIOUS, words: "previous write, ask or error", page: STEPS },
  { id: "first", keys: ["Home"], words: "first step", page: STEPS },
  { id: "last", keys: ["End"], words: "last step", page: STEPS, line: true },
  { id: "open-all", keys: ["o"], words: "open all", page: STEPS, line: true },
  { id: "zoom", keys: ["m"], words: "zoom picture", page: STEPS, line: true },
  { id: "play", keys: ["Space"], words: "play or pause", page: REPLAYED, line: true },
  { id: "pause", keys: ["Space"], words: "pause my view", page: "live", line: true },
  { id: "follow", keys: ["f"], words: "follow", page: "live", line: true },
  { id: "replay", keys: ["r"], words: "replay", page: "live" },
  { id: "forth-ask", keys: ["q"], words: "next ask", page: "replay", line: true },
  { id: "back-ask", keys: ["Shift+Q"], words: "previous ask", page: "replay" },
  { id: "forth-error", keys: ["e"], words: "next error", page: "replay", line: true },
  { id: "back-error", keys: ["Shift+E"], words: "previous error", page: "replay" },
  { id: "forth-write", keys: ["w"], words: "next write", page: "replay" },
  { id: "back-write", keys: ["Shift+W"], words: "previous write", page: "replay" },
  { id: "forth-said", keys: ["l"], words: "next label or comment", page: "replay" },
  { id: "back-said", keys: ["Shift+L"], words: "previous label or comment", page: "replay" },

  { id: "wheel", keys: ["w"], words: "take the wheel", page: "live wheel", line: true },
  { id: "wheel-call", keys: ["Ctrl+Enter"], words: "send the call", page: "wheel", line: true, inField: true },
  { id: "undo-order", keys: ["z"], words: "undo the call or words", page: "wheel", line: true },
  { id: "propose", keys: ["p"], words: "let the agent propose a call", page: "wheel", line: true },
  { id: "hand-back", keys: ["h", "Escape Escape"], words: "hand back the wheel", page: "wheel", line: true },

  { id: "fork", keys: ["f"], words: "fork from this step", page: "replay fork tree", line: true },
  { id: "branches", keys: ["b"], words: "branches", page: "replay fork", line: true },
  { id: "make-campaign", keys: ["Ctrl+Enter"], words: "send the campaign", page: "campaigns", line: true, inField: true },
  { id: "make-fork", keys: ["Ctrl+Enter"], words: "send the fork", page: "forking", line: true, inField: true },

  { id: "next-review", keys: ["Enter"], words: "open, or review next", page: "reviews", line: true },

  { id: "leave", keys: ["Escape"], words: "leave field", page: "*", line: true, inField: true, onlyField: true },
  { id: "palette", keys: ["Ctrl+k"], words: "search everything, or run a command", page: "*", inField: true },
  { id: "help", keys: ["?"], words: "keyboard shortcuts", page: "*", line: true },
];
