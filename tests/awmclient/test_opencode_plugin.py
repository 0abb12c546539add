"""OpenCode's plugin run by Node: which prompts its command gets. Tests of hooks run it inside OpenCode."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from awmclient.hooks.opencode import plugin_of

EVENTS = """
import { writeFile } from "node:fs/promises"
import { Awmclient } from "./plugin.mjs"
const { event, dispose, ...hooks } = await Awmclient({ client: {}, directory: "." })
const heard = (type, properties) => event({ event: { type, properties } })
hooks["chat.message"]({ sessionID: "s" }, { parts: [{ type: "text", text: "Go on" }] })
for (const id of ["first", "second"]) heard("permission.asked", { id, sessionID: "s", permission: id, patterns: [] })
heard("permission.replied", { requestID: "first", sessionID: "s" })
// waits until the command reads it
await writeFile("go", "on")
await dispose()
"""
COMMAND = """
text=$(cat)
case "$text" in *UserPromptSubmit*) cat go > /dev/null;; esac
echo "$text" >> heard
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node runs the plugin")
def test_prompt_that_the_terminal_answers_first_is_not_asked(tmp_path):
    os.mkfifo(tmp_path / "go")
    (tmp_path / "plugin.mjs").write_text(plugin_of(["sh", "-c", COMMAND]))
    (tmp_path / "events.mjs").write_text(EVENTS)
    subprocess.run(["node", "events.mjs"], cwd=tmp_path, check=True, timeout=60)
    lines = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    prompts = [line["tool_name"] for line in lines if line["hook_event_name"] == "PermissionRequest"]
    assert prompts == ["second"]
