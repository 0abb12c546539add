"""The dataset card: `README.md` of a dataset's folder, as Hugging Face reads it. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from exports.formats import ExportFormat
from people.text.in_words import bytes_in_words, count

_REASONING = {"keep": "kept", "keep_masked": "kept, without loss", "drop": "left out"}
UNKNOWN = 0.9
"""An interval of a share that is wider than this says nothing: the card calls the share unknown."""


def text(manifest: dict[str, Any], format_: ExportFormat) -> str:
    """Return the card of a dataset with this manifest: counts, how it was made, and what was left out."""
    return f"---\n{_head(manifest, format_)}---\n\n{_body(manifest, format_)}"


def _head(manifest: dict[str, Any], format_: ExportFormat) -> str:
    # the data file is the first in every manifest
    data = manifest["files"][0]["path"]
    # a file that reports must not load as the split for training
    split = "train" if manifest["for_training"] else "test"
    configs = [{"config_name": "default", "data_files": [{"split": split, "path": data}]}]
    head = {
        "license": manifest["license"],
        # a container is no table that `datasets` could load
        "configs": [] if format_.container else configs,
        "tags": ["agents", "tool-use", "awmweb", manifest["format"]],
    }
    return str(yaml.safe_dump({name: value for name, value in head.items() if value}, sort_keys=False))


def _body(manifest: dict[str, Any], format_: ExportFormat) -> str:
    lines = [
        f"# {format_.kind.title}",
        "",
        f"{manifest['rows']:,} rows from {manifest['episodes_used']:,} of {manifest['episodes']:,} matching episodes.",
        "Agents ran tasks in generated environments. Outcomes come from verifier programs unless stated otherwise.",
        "",
    ]
    if not manifest["for_training"]:
        lines += ["**Not for training:** this file can contain held-out and evaluation episodes.", ""]
    if format_.kind.reasoning:
        lines += [f"Reasoning of models: {_REASONING[manifest['reasoning']]}.", ""]
    if manifest["opted_in"]:
        lines += [f"Included on request, excluded by default: {', '.join(manifest['opted_in'])}.", ""]
    lines += _pictures(manifest.get("pictures"), is_parquet=manifest["recipe"]["parquet"])
    lines += _forks(manifest.get("forks"))
    lines += _repaired(manifest.get("repaired_verifiers") or {})
    lines += _table("Left out", "episodes", manifest["left_out"])
    lines += _table("Rows left out", "rows", manifest["rows_left_out"])
    lines += _table("Redacted", "places", manifest["redacted"])
    lines += ["## How it was made", "", "```yaml", *_recipe(manifest), "```", ""]
    lines += [f"Dataset `{manifest['dataset']}`, snapshot `{manifest['snapshot_sha256']}`."]
    lines += [f"Pack {name}: `{digest}`." for name, digest in manifest["packs"].items()]
    return "\n".join(lines) + "\n"


def _table(title: str, unit: str, counts: dict[str, int]) -> list[str]:
    if not counts:
        return []
    rows = [
        f"| {reason} | {count:,} |" for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return [f"## {title}", "", f"| reason | {unit} |", "|---|---|", *rows, ""]


def _pictures(pictures: dict[str, int] | None, *, is_parquet: bool) -> list[str]:
    if pictures is None:
        return []
    where = "inside the rows" if is_parquet else "in `data/images/`, which rows name in `images`"
    return [f"{count(pictures['count'], 'picture')} of {bytes_in_words(pictures['bytes'])}, {where}.", ""]


def _forks(forks: dict[str, Any] | None) -> list[str]:
    if forks is None:
        return []
    # manifests of before have no interval
    span = f" (95%: {forks['wrong_low']:.0%} to {forks['wrong_high']:.0%})" if "wrong_low" in forks else ""
    asked, shown = count(forks["asked"], "fork"), f"{forks['shown']:,} of them"
    # those of before counted the forks of the chosen episodes
    if forks.get("asked_in") == "project":
        lead = (
            f"{asked} of the project compared two actions; {shown} show a difference here. Erased forks are not "
            "counted, nor those that could compare nothing."
        )
    else:
        lead = f"{asked} asked whether one action is better; {shown} show it."
    if forks.get("asked_in") == "project" and forks["wrong_high"] - forks["wrong_low"] > UNKNOWN:
        share = (
            f"Which share of their pairs has no effect or the opposite one is not known: {forks['wrong']:.0%}{span}."
        )
    else:
        share = f"By estimate {forks['wrong']:.0%} of their pairs{span} have no effect or the opposite one."
    return [f"{lead} {share} The worth of a pair and its interval are corrected for being picked.", ""]


def _repaired(tasks: dict[str, Any]) -> list[str]:
    if not tasks:
        return []
    rows = [
        f"| `{task}` | {repair['version']} | `{repair['sha256'][:12]}` | {repair['outcomes']:,} |"
        for task, repair in tasks.items()
    ]
    head = ["| task | version | code | outcomes |", "|---|---|---|---|"]
    return ["## Errata", "", "Repaired verifiers found these outcomes, not those of the packs.", "", *head, *rows, ""]


def _recipe(manifest: dict[str, Any]) -> list[str]:
    return str(yaml.safe_dump(manifest["recipe"], sort_keys=False)).rstrip().split("\n")
