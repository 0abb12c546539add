"""What a chart says of a point under the pointer."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

PLACE = """(plot, [trace, point]) => {
    const { xaxis, yaxis } = plot._fullLayout;
    const { x, y } = plot._fullData.at(trace);
    const box = plot.getBoundingClientRect();
    return [box.left + xaxis._offset + xaxis.d2p(x.at(point)), box.top + yaxis._offset + yaxis.d2p(y.at(point))];
}"""


def hovered(chart: Locator, trace: int, point: int) -> list[str]:
    """Move the pointer to a point of a chart, and return the lines that appear there. Negative numbers count from the
    end."""
    plot, page = chart.locator(".plot[role=img]"), chart.page
    plot.scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    expect(plot.locator(".hovertext")).to_have_count(0)
    page.mouse.move(*plot.evaluate(PLACE, [trace, point]))
    label = plot.locator(".hovertext")
    expect(label).to_have_count(1)
    return label.locator("tspan.line").all_text_contents() or label.locator("text").all_text_contents()


def told(chart: Locator) -> list[list[str]]:
    """Return the rows of a chart's table, opened if need be."""
    if not chart.get_by_role("table").is_visible():
        chart.get_by_text("Show numbers").click()
    rows = chart.locator("tbody tr")
    return [rows.nth(number).locator("td").all_inner_texts() for number in range(rows.count())]
