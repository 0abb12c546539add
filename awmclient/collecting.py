"""The public path of episodes that are recorded when they have ended, many in one request."""

from awmclient.client.collecting import CollectedEpisode as CollectedEpisode
from awmclient.client.collecting import CollectingDashboard as CollectingDashboard
