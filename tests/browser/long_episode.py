"""A long episode written straight into the database of a running product, and words about the page that shows it.

Called by the browser tests; the API would take a while for ten thousand steps.
"""

from __future__ import annotations

from playwright.sync_api import Page

from tests.running import Product

CODE = """
import json
from django.utils import timezone
from episodes.models import Episode, Step
from episodes.stored.strip import codes_of
from people.models import Project
count, now = {count}, timezone.now()
def body(n):
    if n % 7 == 0:
        return {{"seq": n, "kind": "message", "role": "assistant", "content": "thought %d " % n * (1 + n % 13)}}
    call = {{"seq": n, "kind": "tool_call", "name": "update_ticket", "arguments": {{"id": n}}, "result": {{"id": n}}}}
    if n % 5 == 0:
        rows = [{{"key": row, "before": {{"a": 1}}, "after": {{"a": 2}}}} for row in range(20 if n % 100 == 10 else 1)]
        call["state_diff"] = {{"tickets": {{"changed": rows}}}}
    return call
bodies = [body(n) for n in range(1, count + 1)]
one = Episode.objects.create(
    project=Project.objects.get(slug="{project}"), key="{key}", body_digest="x", task="a long task", started_at=now,
    heartbeat_at=now, last_seq=count, strip=codes_of(bodies),
)
Step.objects.bulk_create(
    [
        Step(
            episode=one, seq=b["seq"], kind=b["kind"], body=json.dumps(b, sort_keys=True, separators=(",", ":")), at=now
        )
        for b in bodies
    ],
    batch_size=2000,
)
print(one.pk)
"""


def long_episode(house: Product, count: int, key: str) -> str:
    """A running episode of so many steps; its id."""
    return (
        house.manage("shell", "-c", CODE.format(count=count, key=key, project=house.project)).strip().splitlines()[-1]
    )


def seqs(page: Page) -> list[int]:
    """Numbers of the steps that are on the page."""
    return page.eval_on_selector_all(
        "ol[data-steps] > li.step[data-seq]", "all => all.map(li => Number(li.dataset.seq))"
    )


READ = """
const text = Response.prototype.text;
window.read = [];
Response.prototype.text = async function () {
  const said = await text.call(this);
  setTimeout(() => window.read.push(this.url)); // after all that waited for these words
  return said;
};
"""
"""Has a page write down which answers it has taken in: `page.add_init_script(READ)`."""


def has_read(page: Page, *parts: str) -> None:
    """Wait until the page has taken in an answer from an address with these parts."""
    page.wait_for_function("parts => window.read.some((url) => parts.every((one) => url.includes(one)))", arg=parts)


def in_view(page: Page, seq: int) -> bool:
    """Whether a step is drawn, not only kept a place, and stands in the visible part of its pane."""
    return page.evaluate(
        """seq => {
          const row = document.querySelector(`#step-${seq}`);
          if (!row || row.classList.contains("blank")) return false;
          const [box, pane] = [row.getBoundingClientRect(), row.closest("[data-scroll]").getBoundingClientRect()];
          return box.bottom > pane.top && box.top < pane.bottom;
        }""",
        seq,
    )
