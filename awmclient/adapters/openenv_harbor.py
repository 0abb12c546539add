"""`openenv harbor` with the desk in every rollout, each recorded as an episode.

python -m awmclient.adapters.openenv_harbor rollout --llm-url URL --dataset tasks --harness claude-code --sandbox docker
"""

from __future__ import annotations

import sys
import uuid

from awmclient.adapters.harbor import desk_from_environment, record_trials
from awmclient.adapters.missing import missing

try:
    from openenv.cli.__main__ import main as openenv
except ImportError as error:
    raise missing("OpenEnv", "'openenv[harbor]'", error) from error


def main() -> None:
    """Run the command with AWMWEB_URL and AWMWEB_TOKEN; its rollouts are a run. It takes its own words as always."""
    record_trials(desk_from_environment("OpenEnv: harbor", f"openenv-harbor:{uuid.uuid4()}"))
    sys.argv[:] = ["openenv", "harbor", *sys.argv[1:]]
    openenv()


if __name__ == "__main__":
    main()
