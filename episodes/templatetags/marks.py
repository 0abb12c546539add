"""Template tags that draw: glyphs, strips, countdowns, states, step cards.

Labels and shapes come from `strip` and `cards`; markup is that of the design. Called by every template.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString

from awmenv.health import Health
from awmenv.models import BuildReport
from episodes.events import DEAF_S, SILENT_S
from episodes.models import EXPERT_WORDS, Episode
from episodes.show.html_cache import context_of, picture_of
from episodes.show.step_cards import initials
from episodes.show.values import number
from episodes.show.wall import STALLED_S
from episodes.show.windows import ShownStep
from episodes.stored import strip as line
from episodes.visible import visibility
from people.text.in_words import COUNTDOWN_LEVELS, ago, bytes_in_words, clock, count, countdown_level, duration, percent
from people.text.plain_text import clean, named, writable
from people.text.prose import in_line, prose

register = template.Library()
register.filter("clean", clean)
register.filter("typed", writable)
register.filter("in_line", in_line)
register.simple_tag(prose)
register.filter("initials", initials)
register.filter("named", named)
register.filter("number", number)
register.filter("size", bytes_in_words)
register.filter("percent", percent)
register.filter("clock", clock)
register.filter("duration", duration)

# PITCH: pixels from mark to mark. RING: circumference of the countdown's circle, 2 pi times its radius of 8.
PITCH, RING = 13, 50.27
BETWEEN = 5.5
"""Where a line of a tree is: between the marks of its place and of the one before."""
_NULL = SafeString('<i class="dim">null</i>')
STATES = {
    "queued": ("e-queued", "idle", "Queued"),
    "running": ("e-running", "run", "Running"),
    "waiting": ("e-waiting", "ask", "Waiting"),
    "parked": ("e-parked", "ask", "Parked"),
    "finished": ("e-finished", "idle", "Finished"),
    "failed": ("e-failed", "bad", "Failed"),
    "cancelled": ("e-cancelled", "idle", "Cancelled"),
}
ASKS = {
    "open": ("a-open", "ask", "Open"),
    "leased": ("a-leased", "ask", "Claimed"),
    "answered": ("a-answered", "ask", "Answered"),
    "fell_back": ("a-fell", "idle", "Fell back"),
    "declined": ("a-declined", "idle", "Declined"),
    "cancelled": ("a-cancelled", "idle", "Cancelled"),
}
REPORTED = format_html(' <small class="meta" title="{}">reported</small>', "No verifier found this outcome.")
TIERS = {
    "container": ", a disposable container declared by the operator",
    "degraded": ", packs declared trusted by the operator",
}
_LETTERS = {"off": ("B", ""), "plain": ("E", "e"), "informed": ("I", "e")}
ARMS = {str(mode): (*_LETTERS[mode], word) for mode, word in EXPERT_WORDS.items()}


@register.simple_tag
def g(symbol: str, css: str = "") -> SafeString:
    """Return one glyph of the sprite, hidden from screen readers: a label is always beside it."""
    return format_html('<svg class="g {}" aria-hidden="true"><use href="#{}"/></svg>', css, symbol)


def _st(symbol: str, css: str, word: str) -> SafeString:
    return format_html('<span class="st {}">{}{}</span>', css, g(symbol), word)


@register.simple_tag
def state(value: str, fault: str = "") -> SafeString:
    """Draw the state of an episode, and for a failed one its fault: "Failed: worker"."""
    symbol, css, word = STATES.get(value, ("e-queued", "idle", clean(value)))
    return _st(symbol, css, f"{word}: {clean(fault)}" if fault and value == "failed" else word)


@register.simple_tag
def ask_state(value: str) -> SafeString:
    return _st(*ASKS.get(value, ("a-open", "ask", clean(value))))


@register.simple_tag
def outcome_state(value: str | None, ended: bool = False, source: str = "") -> SafeString:
    """Draw the hexagon of an outcome; a reward type without a shape of its own is shown by its wire name. One that no
    verifier found says so."""
    if not value:
        return _st("v-hex", "idle", "Not verified" if ended else "Not verified yet")
    symbol, css = (kind.mark.symbol, kind.mark.css) if (kind := line.OUTCOMES.get(value)) else ("v-hex", "mono")
    words, title = clean(line.outcome_words(value)), f"reward_type {clean(value)}"
    drawn = format_html('<span class="st {}" title="{}">{}{}</span>', css, title, g(symbol), words)
    return drawn if source != "reported" else drawn + REPORTED


@register.simple_tag
def health_remark(health: Health | None) -> SafeString | str:
    """Draw the most severe warning of a verifier check in a list; nothing if there is none."""
    if health is None or not health.words:
        return ""
    glyph = g("e-failed", "bad")
    return format_html(
        '<small class="remark" title="{}">{} {}</small>', clean(health.explanation), glyph, clean(health.words)
    )


@register.inclusion_tag("episodes/step/_health.html")
def verifier_health(health: Health | None) -> dict[str, Any]:
    """Return the check of the verifier, shown beside its outcome."""
    if health is None:
        return {}
    return {"remarks": health.remarks, "explanation": clean(health.explanation), "checked": not health.unchecked}


@register.inclusion_tag("episodes/step/_partial.html")
def partial_scenario(wire: Any) -> dict[str, Any]:
    """Return the failed SQL statements of a partial scenario; nothing for a complete one."""
    return {"report": BuildReport.from_wire(wire)}


@register.filter
def tier_words(tier: str) -> str:
    """Return the meaning of a sandbox level below strict."""
    return TIERS.get(tier, "")


@register.filter
def grouped(count: Any) -> str:
    """Return a count with thousands separators; a word in the place of a count stays."""
    return f"{count:,}" if isinstance(count, int) else str(count)


@register.filter
def asked(name: str) -> str:
    """Return a name as the end of a question: one that ends with a question mark gets no second one."""
    return name if name.endswith("?") else f"{name}?"


@register.filter
def or_null(cell: str | None) -> str:
    """Return the text of a table's cell, null as a muted word."""
    return _NULL if cell is None else cell


@register.filter
def briefed(codes: str) -> str:
    """Return *briefed* if the agent of these steps read a briefing before it began, else nothing."""
    return "briefed" if line.BRIEFED in codes else ""


@register.simple_tag
def arm(expert: str | None, name: str = "", briefing: str = "") -> SafeString:
    """Draw the expert mode of an episode, under the arm's name if the loop gave one; `briefing` names its source."""
    letter, css, word = ARMS.get(expert or "off", ARMS["off"])
    if briefing:
        letter, css, word = (
            ("A", "e", clean(briefing)) if letter == "B" else (letter, css, f"{word}, {clean(briefing)}")
        )
    if not name:
        return format_html('<span class="arm {}"><b aria-hidden="true">{}</b>{}</span>', css, letter, word)
    markup = '<span class="arm {}" title="{}"><b aria-hidden="true">{}</b>{}<span class="vh">, {}</span></span>'
    return format_html(markup, css, word, letter, clean(name), word)


@register.filter
def facts(episode: Episode) -> str:
    """Return the length, policy, seed and run of an episode in one line."""
    parts = [count(line.actions_in(episode.strip), "action"), clean(episode.policy_name)]
    parts += ["" if episode.seed is None else f"seed {episode.seed}", clean(episode.run.name) if episode.run else ""]
    return ", ".join(filter(None, parts))


@register.simple_tag
def arm_of(episode: Episode) -> SafeString:
    """Draw an episode's arm. An imported one has none unless its file names one: whether an expert was offered is
    unknown."""
    if episode.origin == "import" and not episode.arm and episode.expert == "off":
        return SafeString("")
    return arm(episode.expert, episode.arm, briefed(episode.strip))


@register.simple_tag
def strip(
    codes: str,
    budget: int | None = None,
    running: bool = False,
    room: int = 30,
    outcome: str | None = None,
    stalled: bool = False,
) -> SafeString:
    """Return an episode in one line: its marks, then a dot for every step still allowed, or the hexagon of its outcome.
    One that is stalled has no step in progress; `static/steps/strip.js` draws the same from frames.
    """
    codes += "n" if running and not stalled else line.outcome_letter(outcome) if outcome else ""
    marks, left_out = line.shown(codes, room)
    used = line.actions_in(codes)
    dots = 0 if outcome else max(0, min((budget or 0) - used, room - len(marks)))
    lead = 14 + 6 * len(f"{left_out:,}") if left_out else 0
    width = max(PITCH, lead + PITCH * (len(marks) + dots))
    earlier = format_html('<text class="more" x="0" y="10.5">+{}</text>', f"{left_out:,}") if left_out else ""
    body = format_html_join(
        "",
        '<use href="#{}" class="{}" x="{}" y="1" width="11" height="11"/>',
        ((mark.symbol, mark.css, lead + PITCH * n) for n, mark in enumerate(marks)),
    )
    start = lead + PITCH * len(marks)
    rest = format_html_join(
        "", '<rect class="todo" x="{}" y="5.5" width="3" height="2"/>', ((start + 4 + PITCH * n,) for n in range(dots))
    )
    words = line.in_words(codes)
    return format_html(
        '<svg class="strip" width="{0}" height="13" viewBox="0 0 {0} 13" fill="currentColor" role="img"'
        ' aria-label="{1}">{2}{3}{4}</svg>',
        width,
        words,
        earlier,
        body,
        rest,
    )


@register.simple_tag
def limb(lane: Any, room: int = 24) -> SafeString:
    """Return a lane of a tree in one line: its marks from its place on, the line from the lane that it was made of, and
    those that go past it or begin at it. `lane` is a `TreeLane`; later marks than `room` are counted."""
    row, since = lane.first, max(0, lane.since - lane.begins)
    codes = row.episode.strip[max(0, lane.begins - 1) :]
    codes += "n" if row.acting and not row.stalled else line.outcome_letter(row.outcome) if row.outcome else ""
    drawn = codes[since:]
    most = max(1, room - lane.place)
    marks = line.marks_of(drawn[:most])
    uses = format_html_join(
        "",
        '<use href="#{}" class="{}" x="{}" y="-6" width="12" height="12"/>',
        ((mark.symbol, mark.css, PITCH * (lane.place + n) + 6) for n, mark in enumerate(marks)),
    )
    # each line: where it is, and from which to which share of the lane's height
    ways = [*((at, 0, 100) for at in lane.wires), *((at, 50, 100) for at in lane.own_wires)]
    if lane.fork is not None:
        ways.append((lane.place, 0, 50))
    lines = format_html_join(
        "",
        '<line class="wire" x1="{0}" x2="{0}" y1="{1}%" y2="{2}%"/>',
        ((PITCH * at + BETWEEN, *y) for at, *y in ways),
    )
    more = len(drawn) - len(marks)
    rest = format_html('<text x="{}" y="4">+{}</text>', PITCH * (lane.place + most) + 8, f"{more:,}") if more else ""
    words = f"from step {lane.begins:,}, {line.in_words(codes)}" if lane.fork is not None else line.in_words(codes)
    return format_html(
        '<svg class="limb" fill="currentColor" role="img" aria-label="{}">{}'
        '<svg y="50%" overflow="visible">{}{}</svg></svg>',
        words,
        lines,
        uses,
        rest,
    )


@register.simple_tag
def share_line(share: float, interval: tuple[float, float], css: str) -> SafeString:
    """Return a share with its interval as a line from 0 to 1, and both as numbers."""
    low, high = interval
    return format_html(
        '<svg role="img" aria-label="{0} complete, {1} to {2}"><line class="rail" x1="0" x2="100%" y1="8" y2="8"/>'
        '<line class="mid" x1="50%" x2="50%" y1="3" y2="13"/><line class="part-{3}" x1="{4}%" x2="{5}%" y1="8" y2="8"/>'
        '<svg x="{6}%" y="8" overflow="visible"><circle class="part-{3}" r="4"/></svg></svg>'
        '<small>{0} <span class="dim">[{1}, {2}]</span></small>',
        percent(share),
        percent(low),
        percent(high),
        css,
        f"{100 * low:.1f}",
        f"{100 * high:.1f}",
        f"{100 * share:.1f}",
    )


@register.simple_tag
def picture_book() -> SafeString:
    """Return marks and states by name, for pages that draw strips from frames."""
    states = {name: list(state) for name, state in STATES.items()}
    book = {"marks": line.picture_book(), "states": states, "pitch": PITCH}
    return json_script(book, "picture-book")


@register.inclusion_tag("episodes/_withheld.html", takes_context=True)
def withheld_outcomes(context: Mapping[str, Any]) -> dict[str, Any]:
    """Say how many outcomes the reader's blind reviews withhold, beside numbers that leave these out; nothing without
    any. Members read different numbers at the same time, and this is why."""
    return {"withheld": visibility.withheld_here(context["request"].actor)}


@register.simple_tag
def countdown_levels() -> SafeString:
    """Return the levels of countdowns as attributes of the page's body."""
    return format_html_join(" ", 'data-{}="{}"', COUNTDOWN_LEVELS.items())


@register.simple_tag
def page_times() -> SafeString:
    """Return times that scripts share with the server, in seconds, as attributes of the page's body."""
    times = {"silent": SILENT_S, "deaf": DEAF_S, "stalled": STALLED_S}
    return format_html_join(" ", 'data-{}="{}"', times.items())


@register.simple_tag
def countdown_share(name: str) -> str:
    return f"{COUNTDOWN_LEVELS[name]:.0%}"


@register.simple_tag
def countdown(
    deadline: datetime, budget_s: float | None = None, css: str = "", now: datetime | None = None
) -> SafeString:
    """Return ring and m:ss until a deadline; `clock.js` updates it by server time."""
    left = max(0.0, (deadline - (now or timezone.now())).total_seconds())
    share = min(1.0, left / budget_s) if budget_s else 1.0
    return format_html(
        '<span class="cd {} {}" role="timer" data-deadline="{}" data-budget="{}"><svg viewBox="0 0 20 20"'
        ' aria-hidden="true"><circle cx="10" cy="10" r="8"/><circle class="arc" cx="10" cy="10" r="8"'
        # the gap of 60 is longer than the ring, so there is one arc
        ' stroke-dasharray="{} 60"/></svg><span data-left>{}</span><span class="vh"> left</span></span>',
        css,
        countdown_level(left, budget_s),
        deadline.isoformat(),
        f"{budget_s or 0:.0f}",
        f"{share * RING:.1f}",
        clock(left),
    )


@register.simple_tag
def left(deadline: datetime) -> SafeString:
    """Return m:ss until a deadline inside a sentence, which `clock.js` counts down."""
    seconds = (deadline - timezone.now()).total_seconds()
    return format_html('<span data-deadline="{}">{}</span>', deadline.isoformat(), clock(seconds))


@register.simple_tag
def moment(when: datetime | None, style: str = "seconds") -> SafeString | str:
    """Return a time: with seconds on live pages, to the minute in tables, as a time of day (clock) or a day, else in
    relative words. The server prints UTC and says so; `clock.js` shows the reader's zone and names it."""
    if when is None:
        return ""
    at = when.astimezone(UTC)
    day = f"{at:%b} {at.day}, {at:%Y}"
    styles = {
        "seconds": f"{at:%H:%M:%S} UTC",
        "minute": f"{day} {at:%H:%M} UTC",
        "clock": f"{at:%H:%M} UTC",
        "day": day,
    }
    shown_as = styles.get(style) or ago(when, timezone.now())
    return format_html(
        '<time datetime="{}" title="{}" data-time="{}" data-utc>{}</time>',
        when.isoformat(),
        f"{day}, {at:%H:%M:%S} UTC",
        style,
        shown_as,
    )


@register.filter
def iso(when: datetime | None) -> str:
    """Return a time for scripts, in an attribute."""
    return when.isoformat() if when else ""


@register.filter
def unix(when: datetime) -> str:
    """Return a time for scripts that sort by it."""
    return f"{when.timestamp():.6f}"


@register.filter
def relative(when: datetime) -> str:
    """Return a time where there is no room for an element that names its zone, as in an option."""
    return ago(when, timezone.now())


@register.simple_tag
def step_picture(row: ShownStep, current: bool = False, ended: bool = False) -> str:
    """Return the one fragment of a stored step."""
    return picture_of(row, current, ended)


register.inclusion_tag("episodes/step/_step.html", name="step_card")(context_of)


@register.inclusion_tag("episodes/step/_diff.html")
def state_diff(lines: list[Any], more: list[Any] | None = None) -> dict[str, Any]:
    return {"lines": lines, "more": more or []}
