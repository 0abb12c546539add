"""The default runtime behind `make run`: PostgreSQL and Valkey from wheels, and our own services, as child processes.

Owns where the embedded servers keep their data and how they are started, watched and stopped; what runs inside them
belongs to others. The package is standard library only, so that the supervising process stays small. Called by
`awmweb.settings` (addresses, secret key), by `manage.py up`, `backup` and `restore`, and by the tests.

    supervisor      starts and restarts the other processes
    services        the product's processes
    processes       one child process
    forking         starts services as forks of one process
    gate            holds a child until the database is ready
    servers         both embedded servers together
    postgres        the embedded PostgreSQL
    valkey          the embedded Valkey
    space           free space of disks
    paths           folders, sockets, secrets, programs
    known_settings  settings for commands of another shell
    backup          backup and restore
    daily           backups of a schedule, one file a day
    reading_back    what a backup holds, counted
    upgrades        backups from before upgrades
    client_programs PostgreSQL's client programs
"""

from awmweb.embedded.paths import (
    EmbeddedError,
    Urls,
    address,
    attest_key,
    missing_folder,
    nothing_runs_on,
    nothing_to_save,
    secret_key,
    urls,
    vapid_key,
)

__all__ = [
    "EmbeddedError",
    "Urls",
    "address",
    "attest_key",
    "missing_folder",
    "nothing_runs_on",
    "nothing_to_save",
    "secret_key",
    "urls",
    "vapid_key",
]
