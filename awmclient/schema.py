"""The public path of every shape that crosses a process between a loop and the dashboard: the nouns, under one name.

They are versioned (`SCHEMA_VERSION`). Times are UTC datetimes in ISO 8601, durations are seconds, rewards are plain
numbers, IDs are opaque strings.
"""

from awmclient.nouns.answers import *
from awmclient.nouns.asks import *
from awmclient.nouns.episodes import *
from awmclient.nouns.runs import *
from awmclient.nouns.steps import *
from awmclient.nouns.tools import *
from awmclient.nouns.values import *
from awmclient.nouns.wheel import *
