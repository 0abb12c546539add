import assert from "node:assert/strict";
import { test } from "node:test";
import { begin, end, life, whenOver } from "../../static/shell/page-life.js";

test("content ends once, and the shell never", () => {
  const ended = [];
  whenOver(() => ended.push("shell"));
  begin();
  whenOver(() => ended.push("content"));
  end();
  assert.deepEqual(ended, ["content"]);
  whenOver(() => ended.push("late shell"));
  end();
  assert.deepEqual(ended, ["content"]);
  assert.equal(life().aborted, false);
  begin();
  whenOver(() => ended.push("next"));
  end();
  assert.deepEqual(ended, ["content", "next"]);
});
