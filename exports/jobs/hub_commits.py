"""Writes a dataset's folder to a Hugging Face dataset repository.

Owns the calls to the Hub and what its refusals mean. The token goes to the Hub's endpoint (`HF_ENDPOINT`) alone, and
into no message. Loaded by the commands that push, never by the web process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
from django.conf import settings
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from exports.assembly.datasets import MANIFEST, SNAPSHOT
from exports.errors import HubRefused, HubTokenMissing, HubUnreachable

Progress = Callable[[int, int], object]
"""Called with (bytes stored so far, bytes of all files)."""
REFUSED = (401, 403)


def push(folder: Path, repo: str, *, private: bool, message: str, progress: Progress) -> str:
    """Store all files of a folder as one commit and return its address.

    The repository is made if it is missing; `private` counts only then. Files are stored first, one by one, and appear
    together by the commit: a push that ends in the middle changes nothing that readers see.

    Raises:
        HubTokenMissing, HubRefused, HubUnreachable: each names what to set.
    """
    token = token_or_refuse()
    api = HfApi(token=token, endpoint=settings.HUB_ENDPOINT)
    # only the folder of a command has one; the store has none
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SNAPSHOT]
    total, stored = sum(path.stat().st_size for path in files), 0
    try:
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        progress(0, total)
        additions = []
        # the manifest last, as in the store
        for path in sorted(files, key=lambda path: path.name == MANIFEST):
            addition = CommitOperationAdd(str(path.relative_to(folder)), path)
            api.preupload_lfs_files(repo, [addition], repo_type="dataset")
            additions.append(addition)
            stored += path.stat().st_size
            progress(stored, total)
        done = api.create_commit(repo, additions, commit_message=message, repo_type="dataset")
    except HFValidationError as error:
        raise HubRefused(f"{repo!r} is not the name of a repository: use owner/name.") from error
    except HfHubHTTPError as error:
        raise _refusal(error, repo) from error
    except (httpx2.HTTPError, OfflineModeIsEnabled, OSError, RuntimeError, ValueError) as error:
        raise HubUnreachable(f"{HubUnreachable.message_for(settings.HUB_ENDPOINT)} {_plain(error, token)}") from error
    return str(done.commit_url)


def token_or_refuse() -> str:
    """Return the token. Raises `HubTokenMissing`."""
    if not settings.HUB_TOKEN:
        raise HubTokenMissing
    return str(settings.HUB_TOKEN)


def _refusal(error: HfHubHTTPError, repo: str) -> HubRefused:
    status, endpoint = error.response.status_code, settings.HUB_ENDPOINT
    if status in REFUSED:
        return HubRefused(
            f"The Hub at {endpoint} refused the token ({status}). Set AWMWEB_HUB_TOKEN to a token that can write to "
            f"{repo}, and restart awmweb."
        )
    message = error.server_message or error.response.reason_phrase
    return HubRefused(f"The Hub at {endpoint} refused the push to {repo} ({status}): {message}"[:1000])


def _plain(error: Exception, token: str) -> str:
    """Return what an error says, with its cause and without the token."""
    cause = error.__cause__
    message = f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause is not None else "")
    return message.replace(token, "[token]")[:1000]
