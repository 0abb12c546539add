"""Text of people and agents as HTML: as it was written, line by line, or its Markdown as a safe subset. Pure.

The one renderer of all pages. Nothing in a text becomes a link, an image or markup, and nothing is fetched: links stay
text, HTML is shown as letters, and no sign is dropped but those that mark up a block, an emphasis or code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from people.text.plain_text import clean

LONGEST, MOST_LINES = 10_000, 500
"""A longer text is shown as it was written: Markdown takes a millisecond for ten lines."""
MOST_MARKS, MOST_CELLS = 400, 2_000
"""So is one with more signs of emphasis and code, or more cells of tables: each costs as much as sixty plain words."""
DEEPEST = 16
IN_ROW = 2_000
"""Letters of a text that a row can show; what follows is not read."""
ASKING_MAX = 200
"""Letters of a sentence that is shown above a question; a longer one would be a question set in large letters."""
_SENTENCES, _ASKS = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])"), ("?", "？", "؟")
_BLOCKS = ("paragraph", "list", "fence", "code", "table", "heading", "blockquote", "hr")
_INLINE = ("backticks", "emphasis", "balance_pairs", "fragments_join")
# no `newline`: it drops the indentation of a line; no `escape` and `entity`: they drop signs of paths and codes
# Twice the depth that is drawn: the parser drops what is deeper in silence, and `_is_markdown` must see it first.
_PARSER = MarkdownIt("zero", {"html": False, "maxNesting": 2 * DEEPEST}).enable([*_BLOCKS, *_INLINE])
_SAYS_MARKDOWN = frozenset({"fence", "table_open", "heading_open", "bullet_list_open", "ordered_list_open"})
_TAGS = {
    "paragraph_open": '<p dir="auto">',
    "paragraph_close": "</p>",
    "heading_open": '<p class="md-h" dir="auto">',  # not a heading of the page
    "heading_close": "</p>",
    "bullet_list_open": "<ul>",
    "bullet_list_close": "</ul>",
    "ordered_list_open": "<ol>",
    "ordered_list_close": "</ol>",
    "list_item_open": '<li dir="auto">',
    "list_item_close": "</li>",
    "blockquote_open": '<blockquote dir="auto">',
    "blockquote_close": "</blockquote>",
    "table_open": '<div class="rows-w" tabindex="0" role="group" aria-label="Table"><table class="rows">',
    "table_close": "</table></div>",
    "thead_open": "<thead>",
    "thead_close": "</thead>",
    "tbody_open": "<tbody>",
    "tbody_close": "</tbody>",
    "tr_open": "<tr>",
    "tr_close": "</tr>",
    "th_open": '<th scope="col" dir="auto">',
    "th_close": "</th>",
    "td_open": '<td dir="auto">',
    "td_close": "</td>",
    "hr": "<hr>",
}


def prose(text: object, css: str = "", path: str = "", tag: str = "p") -> SafeString:
    """Return a text as HTML: its Markdown with a switch to the source, or the text with its lines and indentation.

    `path` is its place in a step; it names the text as it was written, so that labels find their letters.
    """
    shown = clean(text)
    tokens = _parsed(shown)
    place = format_html(' data-path="{}"', path) if path else ""
    lead = "\n" * shown.startswith("\n")  # HTML drops the first line end of a <pre>
    if not _is_markdown(tokens):
        # A `<pre>` scrolls sideways, so the keyboard must reach it.
        place, first = (format_html('{} tabindex="0"', place), lead) if tag == "pre" else (place, "")
        return format_html('<{0} class="words {1}" dir="auto"{2}>{3}{4}</{0}>', tag, css, place, first, shown)
    return format_html(
        '<div class="md {}"><div class="md-view">{}</div><details class="res src"><summary><span>Source</span>'
        '</summary><pre tabindex="0" dir="auto"{}>{}{}</pre></details></div>',
        css,
        mark_safe("".join(_drawn(tokens))),  # noqa: S308 - every text in it is escaped below
        place,
        lead,
        shown,
    )


def in_line(text: object) -> str:
    """Return the words of a text on one line, for a row of a list."""
    return " ".join(without_marks(text).split())


def without_marks(text: object) -> str:
    """Return the lines of a text without the signs of Markdown, and of a code block the first line."""
    shown = clean(text)
    tokens = _parsed(shown[:IN_ROW])
    plain = "\n".join(_plain_lines(tokens)) if _is_markdown(tokens) else ""
    return plain if plain.strip() else shown


def asking_sentence(text: object) -> str:
    """Return the last sentence of a text that asks, without signs of Markdown and outside of code; empty for none, and
    if it is the first of the text: a heading would repeat what is below it.

    >>> asking_sentence("It fails. Should I go on? The rest is done.")
    'Should I go on?'
    """
    shown = clean(text)
    tokens = _parsed(shown)
    words = [token for token in tokens if token.type not in ("fence", "code_block")]
    lines = _plain_lines(words) if _is_markdown(tokens) else shown.splitlines()
    lines = [line for line in lines if line.strip()]
    first = _SENTENCES.split(lines[0])[0].strip() if lines else ""
    for line in reversed(lines):
        for sentence in reversed(_SENTENCES.split(line)):
            asks = sentence.strip().rstrip("\"'”’)]*_")
            if asks.endswith(_ASKS):
                asking = sentence.strip()
                return asking if len(sentence) <= ASKING_MAX and asking != first else ""
    return ""


def is_markdown(text: object) -> bool:
    """Return whether a text is shown as Markdown."""
    return _is_markdown(_parsed(clean(text)))


def _parsed(text: str) -> Sequence[Token]:
    return _PARSER.parse(text) if _is_bounded(text) else ()


def _is_bounded(text: str) -> bool:
    """Return whether all that the parser makes of a text is bounded, by counting alone."""
    lines = text.count("\n") + 1
    if len(text) > LONGEST or lines > MOST_LINES or sum(map(text.count, "*_`")) > MOST_MARKS:
        return False
    bars = text.count("|")
    # The parser fills each row of a table up to the columns of its second line: 2,000 letters made 65,000 cells.
    return not bars or max(bars, _columns(text) * lines) <= MOST_CELLS


def _columns(text: str) -> int:
    """Return the most columns that a line under the heads of a table names."""
    return max((line.count("|") + 1 for line in text.split("\n") if not line.strip("|-: \t>")), default=0)


def _is_markdown(tokens: Sequence[Token]) -> bool:
    """Return whether a text has a block, bold words or code that only Markdown explains, and all of it can be drawn."""
    if any(token.level >= DEEPEST for token in tokens):
        return False  # the parser leaves out what nests deeper
    inline = (set(_bold(token.children)) | _codes(token.children) for token in tokens if token.children)
    return any(one.type in _SAYS_MARKDOWN for one in tokens) or any(inline)


def _codes(children: Sequence[Token]) -> set[int]:
    return {number for number, one in enumerate(children) if one.type == "code_inline"}


def _bold(children: Sequence[Token]) -> dict[int, str]:
    """Return the tags of bold words by the number of their signs. Two stars within a word, as in `2**3**4`, are none,
    nor are underscores, which belong to names, or single stars."""
    tags: dict[int, str] = {}
    opened: list[int] = []
    for number, child in enumerate(children):
        if child.type == "strong_open":
            opened.append(number)
        elif child.type == "strong_close" and opened:
            start = opened.pop()
            before, after = _content(children, start - 1)[-1:], _content(children, number + 1)[:1]
            if child.markup == "**" and not before.isalnum() and not after.isalnum():
                tags[start], tags[number] = "<b>", "</b>"
    return tags


def _content(children: Sequence[Token], number: int) -> str:
    return children[number].content if 0 <= number < len(children) else ""


def _drawn(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield from _drawn_line(token.children or ())
        elif token.type in ("fence", "code_block"):
            yield format_html('<pre dir="auto">{}{}</pre>', "\n" * token.content.startswith("\n"), token.content)
        # The number as it was written: a list can begin at 3.
        elif token.type == "list_item_open" and token.info:
            yield format_html('<li dir="auto" value="{}">', token.info)
        elif not token.hidden:
            yield _TAGS[token.type]


def _plain_lines(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            children = token.children or ()
            tags = _bold(children)
            yield "".join(
                " " if child.type.endswith("break") else "" if number in tags else child.content or child.markup
                for number, child in enumerate(children)
            )
        elif token.type in ("fence", "code_block"):
            lines = [line for line in token.content.splitlines() if line.strip()]
            yield lines[0] + " …" * (len(lines) > 1) if lines else ""
        elif token.type == "list_item_open":
            yield f"{token.info}{token.markup}" if token.info else "•"


def _drawn_line(children: Sequence[Token]) -> Iterator[str]:
    tags = _bold(children)
    for number, child in enumerate(children):
        if child.type == "code_inline":
            yield format_html("<code>{}</code>", child.content)
        elif child.type.endswith("break"):
            yield "\n"
        else:
            # An emphasis that is not drawn keeps its signs.
            yield tags.get(number) or escape(child.content or child.markup)
