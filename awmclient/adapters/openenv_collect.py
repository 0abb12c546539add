"""`openenv collect` with sessions of an environment server of awmweb, recorded and with an expert to ask.

python -m awmclient.adapters.openenv_collect awm:helpdesk_1 --base-url http://127.0.0.1:8100 --output-dir collected
"""

from __future__ import annotations

import os
from typing import Any

from awmclient.adapters.missing import missing
from awmclient.adapters.openenv import AwmSessions, listening, with_expert
from awmclient.client.sync import SyncHttpDashboard

try:
    from openenv.cli.commands import collect as collecting
    from openenv.core.harness import MCPHarnessAdapter
except ImportError as error:
    raise missing("OpenEnv", "openenv", error) from error

FAMILY = "awm"


def main() -> None:
    """Run the command. `awm:SCENARIO` and `awm:all` are environments of awmweb; it takes its own as always.

    With AWMWEB_URL and AWMWEB_TOKEN each episode is recorded at the dashboard, and the agent can ask an expert.
    """
    build = collecting._build_session_factory
    url, token = os.environ.get("AWMWEB_URL", ""), os.environ.get("AWMWEB_TOKEN", "")
    dashboards: list[SyncHttpDashboard] = []

    def sessions(env_spec: str, base_url: str, dataset_config: dict[str, Any] | None = None) -> Any:
        family, _, scenario = env_spec.partition(":")
        if family != FAMILY:
            return build(env_spec, base_url, dataset_config)
        ours = AwmSessions(base_url, scenario="" if scenario == "all" else scenario)
        if not (url and token):
            return ours
        dashboards.append(SyncHttpDashboard(url, token))
        return with_expert(ours, dashboards[-1])

    # the command knows two environments by name, and has no other place for a third
    replaced: dict[str, Any] = vars(collecting)
    replaced["_build_session_factory"] = sessions
    replaced["MCPHarnessAdapter"] = lambda: listening(MCPHarnessAdapter())
    try:
        collecting.app()
    finally:
        for dashboard in dashboards:
            dashboard.close()


if __name__ == "__main__":
    main()
