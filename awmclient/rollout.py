"""The public path of the loop."""

from awmclient.loop.ports import ActionEnvironment as ActionEnvironment
from awmclient.loop.ports import Dashboard as Dashboard
from awmclient.loop.ports import EpisodePort as EpisodePort
from awmclient.loop.ports import OnEnd as OnEnd
from awmclient.loop.ports import ToolEnvironment as ToolEnvironment
from awmclient.loop.ports import ToolResult as ToolResult
from awmclient.loop.rollout import RolloutResult as RolloutResult
from awmclient.loop.rollout import rollout as rollout
