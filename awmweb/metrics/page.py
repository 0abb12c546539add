"""The page `/metrics` for a Prometheus of the operator's: figures of all projects, no text and no ID of anybody.

Only a token of scope *metrics* opens it, never a session: it belongs to no project, and the operator alone issues one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

from awmweb.metrics import backups, disks, processes, stored
from awmweb.metrics.stored import Figure, Histogram, LastScrape
from people.access import bearer, may_scrape
from people.errors import AppError, NotFound, Unauthenticated
from people.http import refusal
from people.record.members import token_of

KEPT = LastScrape(lambda: [*stored.read(), *processes.read(), *disks.read(), *backups.read()])


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all figures in the text format of Prometheus.

    In a project this is the address of its page *Metrics*, without the last slash.
    """
    if getattr(request, "slug", "") and "Authorization" not in request.headers:
        return redirect("metrics", permanent=True)
    try:
        _admit(request)
    except AppError as refused:
        return refusal(refused)
    return HttpResponse(_metrics_text(KEPT.figures()), content_type="text/plain; version=0.0.4; charset=utf-8")


def _admit(request: HttpRequest) -> None:
    """Admit a metrics token. An address in a project is none of this page's."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    token = token_of(secret) if kind.lower() == "bearer" else None
    if token is None:
        raise Unauthenticated("Send a token of scope metrics in the Authorization header.")
    if getattr(request, "slug", ""):
        raise NotFound
    may_scrape(bearer(token))


def _metrics_text(figures: Iterable[Figure | Histogram]) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector

    def family(figure: Figure | Histogram) -> Metric:
        if isinstance(figure, Histogram):
            times = HistogramMetricFamily(figure.name, figure.words, labels=figure.labels)
            for labels, (counts, total) in sorted(figure.series.items()):
                names = [*map(str, figure.bounds), "+Inf"]
                times.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), total)
            return times
        about = figure.name, figure.words, None, figure.labels
        values = CounterMetricFamily(*about) if figure.is_counter else GaugeMetricFamily(*about)
        for labels, value in sorted(figure.series.items()):
            values.add_metric(labels, value)
        return values

    class Figures(Collector):
        def collect(self) -> Iterator[Metric]:
            return map(family, figures)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return generate_latest(registry)
