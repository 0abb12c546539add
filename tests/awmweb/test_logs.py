"""What signs somebody in stands in no line of a log, whichever way its address was met."""

from __future__ import annotations

import json
import logging
import logging.config
import os
import subprocess
import sys

import httpx
import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from awmweb import logs
from tests.running import ROOT

SECRET = "aF-7tA41TvwSq3vkbamR_-NrGUYN-H2oq4WoanUMFb8"


@pytest.mark.parametrize("where", ["/login/once/{}", "/login?next=%2Flogin%2Fonce%2F{}", "http://a/login/once/{}?x=1"])
def test_line_holds_no_secret_of_a_link(where):
    form = settings.LOGGING["formatters"]["line"]
    line = import_string(form["class"])(form["format"], style=form["style"])
    record = logging.makeLogRecord({"msg": "Forbidden: %s", "args": (where.format(SECRET),)})
    assert SECRET not in line.format(record) and "[secret]" in line.format(record)


def test_json_line_names_request_episode_and_ask_alone():
    """And no secret of a link, also where an escape of JSON follows it."""
    path = "/projects/lab/episodes/0123456789abcdefghij/"
    entered = logs.enter(**logs.ids_of(path))
    try:
        raise ValueError(f"/answer/{SECRET}")
    except ValueError as error:
        about = (type(error), error, error.__traceback__)
        record = logging.makeLogRecord(
            {"msg": "Forbidden: %s\nnext", "args": (f"/login/once/{SECRET}",), "exc_info": about, "levelname": "ERROR"}
        )
        text = logs.JsonFormatter().format(record)
    finally:
        logs.leave(entered)
    line = json.loads(text)
    assert "\n" not in text and SECRET not in text
    assert line["message"] == "Forbidden: /login/once/[secret]\nnext" and "/answer/[secret]" in line["error"]
    assert line["episode"] == "0123456789abcdefghij" and len(line["request"]) == 32 and "ask" not in line
    assert set(json.loads(logs.JsonFormatter().format(record))) == {"time", "level", "logger", "message", "error"}
    assert logs.ids_of("/api/v1/asks/0123456789abcdefghij/claim")["ask"] == "0123456789abcdefghij"
    assert set(logs.ids_of("/asks/next")) == {"request"}


@pytest.mark.parametrize(
    ("name", "words", "args"),
    [
        ("uvicorn.access", '%s - "%s %s HTTP/%s" %d', ("a", "GET", "/episodes/?q=secret", "1.1", 200)),
        ("uvicorn.error", '%s - "WebSocket %s" [accepted]', ("a", "/ws?q=secret")),
    ],
)
def test_log_has_no_addresses_with_search_words(name, words, args):
    logging.config.dictConfig(settings.LOGGING)
    written = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())
    loggers = [logging.getLogger(one) for one in ("", "uvicorn", "uvicorn.access", "uvicorn.error")]
    before = [(one.level, one.disabled) for one in loggers]
    try:
        for one in loggers:
            one.addHandler(handler)
        loggers[-1].disabled = False  # a server of another test in this process may have changed it
        loggers[-1].setLevel(logging.INFO)
        args = (
            ("127.0.0.1", "GET", "/episodes/?q=secret", "1.1", 200)
            if "access" in name
            else ("127.0.0.1", "/ws?q=secret")
        )
        logging.getLogger(name).info(words, *args)
        logging.getLogger("uvicorn.error").info("Started server process")
    finally:
        for one, (level, one.disabled) in zip(loggers, before, strict=True):
            one.removeHandler(handler)
            one.setLevel(level)
    assert set(written) == {"Started server process"}


LOOKS = [
    {"method": "HEAD"}, {"method": "POST"}, {"method": "OPTIONS"}, {"headers": {"Sec-Purpose": "prefetch;prerender"}},
    {"headers": {"Sec-Fetch-Dest": "image"}}, {"headers": {"Host": "evil.example"}}, {"more": "/x"}, {"more": "%00"},
    {"headers": {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "YXdtd2ViIGJlbmNobWFyaw==",
                 "Sec-WebSocket-Version": "13"}},
]  # fmt: skip


def test_log_of_the_product_holds_no_secret_of_a_link(house):
    """Looked ahead, refused, opened, and opened again."""
    link = house.link("lou", "viewer")
    secret = link.rpartition("/")[2]
    with httpx.Client() as client:
        for look in LOOKS:
            client.request(look.get("method", "GET"), link + look.get("more", ""), headers=look.get("headers"))
        opened = client.get(link)
        again = httpx.get(link)
    assert (opened.status_code, again.status_code) == (302, 410)
    assert {opened.headers["Referrer-Policy"], again.headers["Referrer-Policy"]} == {"no-referrer"}
    logs = {log.name: log.read_text(errors="replace") for log in (house.var / "logs").glob("*.log*")}
    assert [name for name, text in logs.items() if secret in text] == []
    assert logs["web.log"].count("/login/once/[secret]") >= 5


LOST = """
import warnings
from celery.exceptions import CPendingDeprecationWarning
from celery.worker.consumer import consumer
from awmweb import celery
celery.app.log.setup("WARNING")
for receiver in {receivers}:
    receiver()
warnings.warn(consumer.CANCEL_TASKS_BY_DEFAULT, CPendingDeprecationWarning, stacklevel=2)
warnings.warn("another one", CPendingDeprecationWarning, stacklevel=2)
"""


def test_loss_of_valkey_logs_no_warning_of_a_setting_that_is_set(tmp_path):
    """Celery warns at each loss of the connection unless tasks are cancelled then, which would end episodes."""
    assert settings.CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS is False
    environ = {**os.environ, "AWMWEB_VAR": str(tmp_path)}

    def said(receivers):
        command = [sys.executable, "-c", LOST.format(receivers=receivers)]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=True)
        return done.stderr

    quiet, loud = said("[celery.keep_quiet_of_a_choice]"), said("[]")
    assert "another one" in quiet and "In Celery 5.1" not in quiet
    assert "In Celery 5.1" in loud, "without it Celery warns"
