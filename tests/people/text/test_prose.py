"""Text as HTML: its lines and indentation, Markdown as a safe subset, and nothing that runs, links or fetches."""

from __future__ import annotations

import re

import pytest

from people.text.prose import asking_sentence, in_line, is_markdown, prose

HOSTILE = """# <script>alert(1)</script>

[click](javascript:alert(1)) ![pixel](http://evil.example/x.png) <http://evil.example> <img src=x onerror=alert(1)>

- **<b onmouseover=x>bold</b>** and `<i>code</i>` &lt;b&gt;

| <u> | b |
|:-:|--:|
| [a](//evil.example) | c |

```<script>
</pre><script>alert(1)</script>
```

<div>raw</div>

[ref]: http://evil.example "title"
"""
TAGS = {"div", "p", "b", "code", "ul", "ol", "li", "pre", "table", "thead", "tbody", "tr", "th", "td", "hr"}
TAGS |= {"blockquote", "details", "summary", "span"}


@pytest.mark.parametrize(
    "text",
    [
        "for x in rows:\n    if x.ok:\n        refund(x)",
        "  indented\n\ttab",
        "a\n\n\n  b",
        "__init__ and snake_case_name",
        "2*3*4 and 2**3**4, f(*a, **kw)",
        "C:\\new_dir\\*.txt &amp; x",
        "שלום\n  עולם",
        "1.5 is enough",
        "[a](b) and ![c](d)",
        "x" * 50_000,
    ],
)
def test_text_keeps_lines_and_indentation(text):
    shown = prose(text, path="$.content")
    assert shown == f'<p class="words " dir="auto" data-path="$.content">{text.replace("&", "&amp;")}</p>'
    assert not is_markdown(text)


def test_markdown_is_drawn_beside_its_source():
    code = "for x in rows:\n    if x.ok:\n        refund(x)\n"
    text = f"Run this:\n\n```python\n{code}```\n\n3. First\n   - nested\n7. Last"
    drawn, source = view(text)
    assert f'<pre dir="auto">{code}</pre>' in drawn
    assert '<ol><li dir="auto" value="3">First<ul><li dir="auto">nested</li></ul></li>' in drawn
    assert '<li dir="auto" value="7">Last</li>' in drawn
    assert f'<pre tabindex="0" dir="auto" data-path="$.content">{text}</pre>' in source


def view(text):
    drawn, _, source = prose(text, path="$.content").partition("<details")
    return drawn, source


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a **b** c\n    d `e`", "a <b>b</b> c\n    d <code>e</code>"),
        ("**b** __init__ *x* 2**3**4 C:\\*.txt &amp;", "<b>b</b> __init__ *x* 2**3**4 C:\\*.txt &amp;amp;"),
        ("# Head", '<p class="md-h" dir="auto">Head</p>'),
        ("`x`\n\n> said", '<blockquote dir="auto"><p dir="auto">said</p></blockquote>'),
        ("|a|b|\n|:-:|--:|\n|1|2|", '<tr><td dir="auto">1</td><td dir="auto">2</td></tr>'),
        ("`a`\n\n[ref]: /url", '<p dir="auto">[ref]: /url</p>'),
    ],
)
def test_markdown_drops_no_sign_but_its_marks(text, drawn):
    assert drawn in view(text)[0]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Which **flag**?\n\n```python\n\nrefund(x)\nclose(x)\n```\nThanks.", "Which flag? refund(x) … Thanks."),
        ("Is `a_b`\nright?\n\n- one\n- *two*\n\n3. three", "Is a_b right? • one • *two* 3. three"),
        ("```json\n{}\n```", "{}"),
        ("```\nnot closed", "not closed"),
        ("# Head\n\n|a|b|\n|-|-|\n|1|2|", "Head a b 1 2"),
        ("plain 2**3**4,\n    as\tit is", "plain 2**3**4, as it is"),
        ("`x\x1b`\u202e", "x⟨ESC⟩⟨U+202E⟩"),
        ("```\n```", "``` ```"),
    ],
)
def test_row_shows_words_without_markdown(text, line):
    assert in_line(text) == line


def test_hostile_markdown_is_letters():
    page = prose(HOSTILE)
    assert {tag.lower() for tag in re.findall(r"</?([a-z]+)", page, re.IGNORECASE)} <= TAGS
    attributes = set(re.findall(r"<[a-z]+ ([^>]*)>", page))
    names = {name for text in attributes for name in re.findall(r"([\w-]+)=", text)}
    assert names <= {"class", "dir", "tabindex", "role", "aria-label", "value", "scope"}
    assert "[click](javascript:alert(1))" in page and "&lt;script&gt;" in page


def test_control_characters_are_named():
    assert "⟨ESC⟩[31mred ⟨U+202E⟩ ⟨BEL⟩⟨DEL⟩⟨U+0085⟩" in prose("\x1b[31mred \u202e \x07\x7f\x85")
    assert "\u202e" not in prose("`a\u202e`") and prose("\x00\ud800").encode()


@pytest.mark.parametrize("text", ["`x` " * 2501, "* a\n" * 501])
def test_markdown_beyond_its_bounds_is_text(text):
    assert prose(text) == f'<p class="words " dir="auto">{text}</p>'


def test_markdown_that_nests_deeper_than_drawn_is_text():
    assert prose("> " * 40 + "`x`").startswith('<p class="words ')


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("It fails. Should I go on? The rest is done.", "Should I go on?"),
        (
            "The test fails with:\n\n```\na ? b : c?\n```\n\nShould I change **3.5** or `x`?",
            "Should I change 3.5 or x?",
        ),
        ("Both are there. Which of the two (the old or the new one?)", "Which of the two (the old or the new one?)"),
        ("两个都有。\n第一个还是第二个？谢谢。", "第一个还是第二个？"),
        # the first is in sight already
        ("Should I use **`a`**? The rest is done.", ""),
        ("\n\nWhich of the two? One is old.\n\nOne is new.", ""),
        ("No question here.", ""),
        (f"Is {'so ' * 90}it?", ""),
    ],
)
def test_last_sentence_that_asks_is_found(text, asking):
    assert asking_sentence(text) == asking
