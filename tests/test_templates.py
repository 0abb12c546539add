"""Every template compiles, names what exists, is used, and keeps to the content policy. Runs without a database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template import engines
from django.template.base import Node, NodeList
from django.template.defaulttags import URLNode
from django.urls import get_resolver

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "templates"
TEMPLATES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))
BY_DJANGO = {"403.html", "403_csrf.html", "404.html", "500.html"}
APPS = ("awmweb", "people", "notices", "episodes", "reviews", "experts", "exports", "imports", "runs", "curriculum")
INLINE = re.compile(r"""<style|<script(?![^>]*\bsrc=)|\s(?:style|on[a-z]+)\s*=\s*["']|javascript:""")


def nodes(name: str) -> NodeList:
    return engines["django"].get_template(name).template.nodelist  # type: ignore[attr-defined]


def addresses(name: str) -> set[str]:
    links: list[Node] = nodes(name).get_nodes_by_type(URLNode)
    return {str(link.view_name.var) for link in links}  # type: ignore[attr-defined]


def second_urls() -> list[str]:
    """Names of addresses that are there only with `AWMWEB_MFA`, from their text: its models are not loaded here."""
    return re.findall(r'name="(\w+)"', (FOLDER.parent / "people/pages/second_urls.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_compiles_and_its_addresses_exist(name: str) -> None:
    assert (
        addresses(name) - {key for key in get_resolver().reverse_dict if isinstance(key, str)} - set(second_urls())
        == set()
    )


def test_addresses_are_found_inside_blocks() -> None:
    assert {"newest_ask", "presence"} <= addresses("_nav.html")
    assert "exports" in addresses("awmweb/home.html")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_inline_script_or_style(name: str) -> None:
    """The content policy would drop it without a word to the reader."""
    assert INLINE.findall((FOLDER / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ['<p style="x">', "<a onclick='f()'>", "<script>1</script>", '<a href="javascript:f">']
)
def test_inline_script_and_style_are_recognised(text: str) -> None:
    assert INLINE.search(text)


@pytest.mark.parametrize("name", TEMPLATES)
def test_elements_that_keep_white_space_hold_no_layout(name: str) -> None:
    """The loader drops indentation, which would show there."""
    kept = re.findall(r"<(pre|textarea)\b[^>]*>(.*?)</\1>", (FOLDER / name).read_text(encoding="utf-8"), re.S)
    assert [text for _, text in kept if "\n" in re.sub(r"{[{%].*?[%}]}", "", text, flags=re.S)] == []


def test_every_static_file_that_a_template_names_exists() -> None:
    named = {
        file for name in TEMPLATES for file in re.findall(r"{% static '([^']+)' %}", (FOLDER / name).read_text("utf-8"))
    }
    assert "site.css" in named
    ours = {file for file in named if not file.startswith("django_htmx/")}
    assert [file for file in sorted(ours) if not (Path(settings.STATICFILES_DIRS[0]) / file).exists()] == []


def test_every_template_is_used() -> None:
    sources = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    texts = [path.read_text("utf-8") for path in [*sources, *FOLDER.rglob("*.html")]]
    unused = [name for name in TEMPLATES if name not in BY_DJANGO and not any(f'"{name}"' in text for text in texts)]
    assert unused == []


def test_every_template_that_is_named_exists() -> None:
    """A page finds out only when it is drawn."""
    sources = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    texts = {path: path.read_text("utf-8") for path in [*sources, *FOLDER.rglob("*.html")]}
    named = {
        (name, str(path)) for path, text in texts.items() for name in re.findall(r'"([a-z_]+/[a-z_/]+\.html)"', text)
    }
    assert len({name for name, _ in named}) > 100
    assert sorted((name, path) for name, path in named if name not in TEMPLATES) == []


def test_counts_that_have_a_noun_have_thousands_separators():
    """One filter writes them: a count beside its plural, in text and not in an attribute."""
    bare = []
    for path in map(FOLDER.joinpath, TEMPLATES):
        text = re.sub(r'="[^"]*"', "", path.read_text(encoding="utf-8"))
        for name in set(re.findall(r"\{\{ ([\w.]+(?:\|length)?)\|pluralize", text)):
            bare += [f"{path.name}: {name}" for _ in re.findall(rf"[\s>]\{{\{{ {re.escape(name)} \}}\}}[\s<{{]", text)]
    assert bare == []


def test_counts_of_a_whole_have_thousands_separators():
    """Also at "3 of 60,051", where no noun follows. A step's number is a place, and sizes are in bytes."""
    plain, bare = r"\{\{ (?!at |parent |[\w.]*\bsize |steps\.last |given\.behind )[\w.]+ \}\}", []
    for path in map(FOLDER.joinpath, TEMPLATES):
        text = re.sub(r'="[^"]*"', "", path.read_text(encoding="utf-8"))
        for one in (rf"{plain}\s+of\s+\{{\{{", rf"\}}\}}(?:<\w+>)?\s*of\s+{plain}"):
            bare += [f"{path.name}: {found}" for found in re.findall(one, text)]
    assert bare == []


def test_times_are_printed_by_one_tag_in_the_readers_zone():
    """`{% moment %}` says UTC, and the one script of times shows the reader's zone. A form's value is no text."""
    scripts = [
        path for path in (ROOT / "static").rglob("*.js") if "vendor" not in path.parts and path.name != "clock.js"
    ]
    sources = [path for app in APPS for path in (ROOT / app).rglob("*.py") if path.name != "marks.py"]
    bare = {
        r"\|(?:date|time)\b(?!:'H:i' }}\")": map(FOLDER.joinpath, TEMPLATES),
        r"toLocale(?:Date|Time)String": scripts,
        r"%H:%M|localtime\(|\d:%b": sources,
    }
    found = {p.name for wrong, paths in bare.items() for p in paths if re.search(wrong, p.read_text("utf-8"))}
    # quiet hours name their own zone; names of files; mails and Slack have no reader's zone and say UTC
    assert found == {"models.py", "backup.py", "sending.py", "slack.py"}
