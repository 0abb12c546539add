"""The ES modules under Node, and the rules of the content policy over every template and module."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.template.loader import get_template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
MODULES = sorted(path for path in (ROOT / "static").rglob("*.js") if path.parent.name != "vendor")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node to run the modules")
def test_the_modules_pass_their_tests_under_node():
    tests = [str(path) for path in sorted(Path(__file__).parent.glob("*.test.mjs"))]
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", *tests], capture_output=True, text=True, timeout=120
    )
    failed = re.findall(r"^ *not ok .*(?:\n(?! *(?:not )?ok ).*)*|^# (?!Subtest).*", done.stdout, re.M)
    assert done.returncode == 0, "\n".join(failed) or done.stderr
    assert re.search(r"pass [1-9]", done.stdout)


def test_no_test_of_a_module_compares_real_time_with_a_limit():
    """A machine may be many times slower: `t.mock.timers` or a timer of the test's own tells the time."""
    clocks = re.compile(r"performance\.now\(|Date\.now\(|\bsetTimeout\(")
    assert [path.name for path in Path(__file__).parent.glob("*.test.mjs") if clocks.search(path.read_text())] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_compiles_and_keeps_the_content_policy(path):
    get_template(str(path.relative_to(ROOT / "templates")))
    text = path.read_text()
    assert not re.search(r"\sstyle\s*=", text), "no style attribute"
    assert not re.search(r"\son[a-z]+\s*=\s*[\"']", text), "no inline handler"
    assert "hx-on" not in text, "htmx must not evaluate"
    assert not re.search(r"<script(?![^>]*\ssrc=)", text), "no inline script"
    assert not re.search(r"(src|href)=[\"'](https?:)?//", text), "no remote file"
    assert "|safe" not in text and "autoescape off" not in text, "agent text is always escaped"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_use_no_eval(path):
    assert not re.search(r"\beval\(|new Function\(|document\.write", path.read_text())


def test_every_static_file_a_template_names_is_there():
    named = {name for path in TEMPLATES for name in re.findall(r"\{% static '([^']+)' %\}", path.read_text())}
    missing = [name for name in named if not name.startswith("django_htmx/") and not (ROOT / "static" / name).exists()]
    assert named and missing == []


def test_every_glyph_that_is_used_is_in_the_sprite():
    from episodes.stored.strip import MARKS
    from episodes.templatetags import marks

    sprite = set(re.findall(r'symbol id="([^"]+)"', (ROOT / "templates" / "glyphs.svg").read_text()))
    used = {mark.symbol for mark in MARKS.values()}
    used |= {symbol for table in (marks.STATES, marks.ASKS) for symbol, *_ in table.values()}
    for path in TEMPLATES:
        used |= set(re.findall(r'\{% g "([^"]+)"', path.read_text()))
        used |= set(re.findall(r'href="#([akevpi]-[a-z]+)"', path.read_text()))
    assert used - sprite == set()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node to run the modules")
@pytest.mark.parametrize(
    ("codes", "options"),
    [
        ("", {}),
        ("trrwe", {"budget": 30, "running": True}),
        ("trrwqeo", {"budget": 30}),
        ("tt", {}),
        ("rw" * 40, {"running": True, "room": 22}),
        ("r" * 1500 + "e", {"room": 22}),
        ("rr", {"budget": 5, "running": True, "stalled": True}),
        ("r§", {}),
    ],
)
def test_a_strip_is_drawn_alike_by_the_server_and_by_the_page(codes, options):
    from episodes.stored.strip import picture_book
    from episodes.templatetags.marks import PITCH, strip

    book = json.dumps({"marks": picture_book(), "pitch": PITCH})
    script = (
        f"import {{ strip }} from {json.dumps(str(ROOT / 'static' / 'steps' / 'strip.js'))};"
        f"process.stdout.write(strip({json.dumps(codes)}, {json.dumps(options)}, {book}));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == str(strip(codes, **options))
