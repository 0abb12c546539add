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

export default [
  { ignores: ["static/vendor/**"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  { ...js.configs.recommended, files: ["**/*.js", "**/*.mjs"] },
  { files: ["static/**/*.js"], languageOptions: { globals: globals.browser }, rules: ours },
  { files: ["static/sw.js"], languageOptions: { globals: globals.serviceworker } },
  { files: ["tests/static/*.mjs"], languageOptions: { globals: globals.node }, rules: ours },
];
