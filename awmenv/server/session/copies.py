"""The files of one session: copies of its database at the reset, after its last write, and when it was sealed."""

from functools import partial
from pathlib import Path

from awmenv.errors import HostFailed
from awmenv.server import database
from awmenv.server.session.hosts import Host, Template
from awmenv.server.session.shared import World


class Copies:
    """Copies of one session's database, in a folder of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.initial: Path | None = None
        self._folder: Path | None = None
        self._last: Path | None = None
        self._last_digest = ""
        self._seen: database.Fingerprint = ()
        self._count = 0

    async def begin(self, host: Host, template: Template) -> None:
        """Keep the state before the agent's first call: the template's, unless the app's start-up changed it."""
        self._folder = self.world.workplace.fresh("epi-")
        self._seen = database.fingerprint(host.database)
        if self._seen == database.fingerprint(template.snapshot):
            target = self.new_path()
            # A hard link costs nothing, and outlives the template's retirement.
            target.hardlink_to(template.snapshot)
            self.initial = target
        else:
            self.initial = await self.take(host)

    @property
    def newest(self) -> Path | None:
        return self._last or self.initial

    def new_path(self) -> Path:
        if self._folder is None:
            raise HostFailed("the session has ended")
        self._count += 1
        return self._folder / f"{self._count}.db"

    async def take(self, host: Host) -> Path:
        """Return a copy of the database as it is committed now."""
        target = self.new_path()
        await self.world.scenarios.snapshot(host, target)
        return target

    def has_changed(self, host: Host) -> bool:
        """Tell whether the database was written since this was last asked."""
        before, self._seen = self._seen, database.fingerprint(host.database)
        return before != self._seen

    def keep(self, copy: Path, digest: str) -> None:
        """Keep a copy in the place of the last one."""
        if self._last is not None:
            database.remove(self._last)
        self._last, self._last_digest = copy, digest

    def keep_snapshot(self, owner: str) -> None:
        """Keep the last database beyond the session, for the next session that continues its record."""
        if self._last is not None and self._last_digest and owner:
            database.before_removing(partial(self.world.snapshots.keep, owner, self._last, self._last_digest))

    def remove(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            database.remove(folder)
