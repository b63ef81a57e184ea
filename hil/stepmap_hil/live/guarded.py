"""viser's server with the gate before it: this machine's own pages only, no tunnel, and nothing on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rich
import viser
from viser.infra import WebsockServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Response

from stepmap_hil.live.feed import Feed
from stepmap_hil.live.gate import Gate
from stepmap_hil.live.site import Site

HOST = "127.0.0.1"  # never another: the page can stop the robot


class House:
    """What stands behind the gate, beside viser."""

    def __init__(self, site: Site, feed: Feed) -> None:
        self.site, self.feed = site, feed

    def answer(self, path: str) -> Response:
        return self.site.answer(path)

    async def talk(self, connection: ServerConnection) -> None:
        await self.feed.talk(connection)


class GuardedServer(viser.ViserServer):
    """Serves this machine's own pages only, with a gate before all connections."""

    def __init__(self, port: int, label: str, site: Site, feed: Feed) -> None:
        self.gate = Gate(House(site, feed))
        super().__init__(host=HOST, port=port, label=label, verbose=False)

    @property
    def _websock_server(self) -> WebsockServer:
        return self._guarded

    @_websock_server.setter
    def _websock_server(self, server: WebsockServer) -> None:
        """viser sets this before it starts the server, which then has its gate from the first connection on."""
        self.gate.stand_before(server)
        self._guarded = server

    def request_share_url(self, verbose: bool = True) -> str | None:
        """No tunnel: viser would open one to the internet whenever a client asks."""
        return None


@contextmanager
def quiet() -> Iterator[None]:
    """Without viser's messages on the terminal, which it prints through rich's own console."""
    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before
