"""How does a loop reach the dashboard? Its classes are public under the name of this folder.

    wire          one request, its retries and envelope
    bodies        what a loop sends, for the wire
    outbox        order of one episode's calls
    pictures      pictures, uploaded before their step
    episode       one episode over HTTP
    dashboard     the dashboard over HTTP
    sync          both, without `await`
    collecting    finished episodes, many in one request
    memory_store  a dashboard's record in memory

`choosing` and the rooms above it import it.
"""

from awmclient.client.dashboard import HttpDashboard as HttpDashboard
from awmclient.client.episode import HttpEpisode as HttpEpisode
from awmclient.client.sync import SyncEpisode as SyncEpisode
from awmclient.client.sync import SyncHttpDashboard as SyncHttpDashboard
