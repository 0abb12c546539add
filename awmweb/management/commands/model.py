"""`manage.py model serve | test | convert`: a model with real weights, on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmclient.choosing import testing
from awmclient.choosing.chat import EndpointConfig
from awmweb.embedded.processes import end_with
from awmweb.weights import PORT, WeightsError, need
from experts import llm
from people.text.in_words import count

PARENT = os.getppid()


class Command(BaseCommand):
    help = "Serve a small open model as an OpenAI endpoint, test model endpoints, and convert a trained checkpoint."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        serve = verbs.add_parser("serve", help="serve a GGUF file, or smollm2 of the package, until stopped")
        serve.add_argument("name", help="smollm2, or a GGUF file")
        serve.add_argument("--port", type=int, default=PORT, help=f"default {PORT}")
        serve.add_argument("--threads", type=int, default=1, help="threads that compute; default 1")
        serve.add_argument("--slots", type=int, default=1, help="conversations at the same time; default 1")
        serve.add_argument("--template", type=Path, metavar="FILE", help="a chat template in place of the model's own")
        test = verbs.add_parser("test", help="offer a tool to agent models, and ask expert models for advice")
        test.add_argument("name", nargs="*", help="agent or expert, a further name, or both; all without it")
        convert = verbs.add_parser("convert", help="write a merged checkpoint of transformers as a GGUF file")
        convert.add_argument("merged", type=Path, help="folder with the checkpoint's .safetensors")
        convert.add_argument("out", type=Path, help="file to write")
        convert.add_argument(
            "--like", type=Path, required=True, metavar="BASE.gguf", help="the file it was trained from"
        )
        # named here, because the package of the format is an extra
        convert.add_argument("--type", choices=["f16", "q8_0"], default="f16", help="of the matrices; default f16")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, options["verb"])(options)
        except WeightsError as error:
            raise CommandError(str(error)) from error

    def serve(self, options: dict[str, Any]) -> None:
        """Serve until a signal comes or the process that started this one ends."""
        if not 0 <= options["port"] <= 65535 or not 1 <= options["slots"] <= 64 or not 1 <= options["threads"] <= 256:
            raise CommandError("Expected a port up to 65535, 1 to 64 slots and 1 to 256 threads.")
        need("xllamacpp", "gguf")
        from awmweb.weights import serving

        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        end_with(PARENT, signal.SIGTERM)
        model = serving.weights(options["name"])
        template, remark = serving.template_for(model, options["template"])
        self.stdout.write(f"Loading {model.name}, {model.megabytes} MB. {remark}")
        self.stdout.flush()
        _server, url = serving.serve(model, template, options["port"], options["threads"], options["slots"])
        self.stdout.write(f"model ready: {url}")
        self.stdout.flush()
        stop.wait()
        # the server's own end waits for all replies that it is writing, up to minutes
        os._exit(0)

    def test(self, options: dict[str, Any]) -> None:
        """Ask each endpoint that is named, and fail if one of them does not answer as it should."""
        roles = {"agent": settings.AGENT_ENDPOINTS, "expert": settings.EXPERT_ENDPOINTS}
        endpoints: list[tuple[str, str, EndpointConfig]] = [
            (role, name, endpoint)
            for role, models in roles.items()
            for name, endpoint in models.items()
            if {*options["name"]} <= {role, name}
        ]
        if not endpoints:
            named = f"named {' '.join(options['name'])}" if options["name"] else "configured"
            raise CommandError(f"No model endpoint is {named}.")
        failed = 0
        for role, name, endpoint in endpoints:
            prefix = "_".join(["AWMWEB", role.upper(), *([name.upper()] if name != role else []), ""])
            check = asyncio.run((llm.tested if role == "expert" else testing.check_endpoint)(endpoint, prefix))
            failed += not check.ok
            shown = role if name == role else f"{role}:{name}"
            self.stdout.write(f"{'ok' if check.ok else 'failed':6} {shown}, {check.duration_s:.1f} s: {check.message}")
        if failed:
            raise CommandError(f"{count(failed, 'endpoint')} failed.")

    def convert(self, options: dict[str, Any]) -> None:
        need("gguf")
        from awmweb.weights import converting

        written = converting.convert(options["merged"], options["out"], options["like"], options["type"])
        megabytes = round(options["out"].stat().st_size / 1e6)
        self.stdout.write(f"Wrote {options['out']}: {count(written, 'array')}, {megabytes} MB.")
