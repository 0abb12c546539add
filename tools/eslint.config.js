// What tsc does not see: the recommended rules, and a short list on top.

import js from "@eslint/js";
import globals from "globals";

const ours = {
  "array-callback-return": "error",
  "default-case-last": "error",
  eqeqeq: "error",
  "no-alert": "error",
  "no-console": "error",
  "no-eval": "error",
  "no-implied-eval": "error",
  "no-new-func": "error",
  "no-self-compare": "error",
  "no-template-curly-in-string": "error",
  "no-throw-literal": "error",
  "no-unmodified-loop-condition": "error",
  "no-unreachable-loop": "error",
  "no-unused-expressions": "error",
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": ["error", { destructuring: "all" }],
  "prefer-template": "error",
};

// A person sends back what a form began with, so that no number may lose digits and no name its place (exact-json.js)
const exact = {
  "no-restricted-properties": ["error", { object: "JSON", property: "parse", message: "Use parseExact." }],
  "no-restricted-syntax": ["error", { selector: "AwaitExpression > CallExpression[callee.property.name='json']", message: "Use parseExact on its text." }],
};
/** What no form begins with: frames, answers to a write, pictures, what this device keeps of a form (its texts), members' names */
const READ_ONLY = [
  "forms/exact-json.js", "forms/drafts.js", "forms/mention-names.js", "forms/next-page.js", "lists/charts.js", "lists/passkey.js",
  "shell/delivery-toast.js", "shell/post.js", "shell/stream.js", "steps/steps.js", "steps/strip.js", "sw.js", "typed-ahead.js",
].map((name) => `static/${name}`);

export default [
  { ignores: ["static/vendor/**"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  { ...js.configs.recommended, files: ["**/*.js", "**/*.mjs"] },
  { files: ["static/**/*.js"], languageOptions: { globals: globals.browser }, rules: ours },
  { files: ["static/**/*.js"], ignores: READ_ONLY, rules: exact },
  { files: ["static/sw.js"], languageOptions: { globals: globals.serviceworker } },
  { files: ["tests/static/*.mjs"], languageOptions: { globals: globals.node }, rules: ours },
];
