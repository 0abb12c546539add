"""A column comes to a format, or leaves it, only with the next version of its rows."""

import hashlib
import json

from exports.formats import FORMATS

COLUMNS = {
    "awmweb.sft/6": "9fe9475208b3",
    "awmweb.steps/4": "8f9e8f602666",
    "awmweb.tokens/4": "008f9b609cef",
    "awmweb.pref/6": "cc5a4deb0930",
    "awmweb.kto/4": "1d48b5a92991",
    "awmweb.prompts/1": "f9719db95a7e",
    "awmweb.curriculum/1": "f85de718805a",
    "awmweb.ask_decision/4": "44b8cc96f271",
    "awmweb.sft/7": "97fccc9fbddd",
    "awmweb.steps/5": "750d85283c56",
    "awmweb.pref/7": "a95509b7efe9",
    "awmweb.kto/5": "f9b22821763b",
    "awmweb.prompts/2": "423e38d18a8a",
}
"""A digest of the columns of each version. If yours differs, raise the version and write its new line here."""


def columns_of(features):
    return hashlib.sha256(json.dumps(features, sort_keys=True).encode()).hexdigest()[:12]


def test_columns_change_only_with_the_version():
    pictured = [one.with_pictures() for one in FORMATS.values() if one.kind.takes_pictures]
    everything = [one for one in (*FORMATS.values(), *pictured) if one.features is not None]
    tables = {one.version: columns_of(one.features) for one in everything}
    assert tables == COLUMNS
