"""Who may speak to the live page: pages that it served itself, with the token of its address.

A browser lets any site open connections to this computer; whoever has one can press STOP and inject faults. So a
connection is refused in its handshake, before a byte of it is heard, unless all of this holds:

- its address begins with the token, which only the printed address has,
- its Host is this server's: a site whose name was made to lead here has another,
- its Origin, where a browser names one, is this server's.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import http
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeAlias

import websockets
import websockets.asyncio.server
from viser.infra import WebsockServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from stepmap.errors import LinkError

NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NAMES = ("127.0.0.1", "localhost")
Handler: TypeAlias = Callable[[ServerConnection], Awaitable[None]]
Answer: TypeAlias = Callable[[ServerConnection, Request], Response | None]
PRIVATE = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
SCENE, FEED = "/scene", "/feed"  # where viser answers, and where the page speaks to the run
OWN_FRAME = "frame-ancestors 'self'"  # viser's page is shown in ours, and nowhere else


class House(Protocol):
    """What stands behind the gate, beside viser."""

    def answer(self, path: str) -> Response: ...
    async def talk(self, connection: ServerConnection) -> None: ...


class Gate:
    """Refuses strangers; ``token`` is what they do not know. Who knows it gets to viser's scene and to ``house``."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.token = secrets.token_urlsafe(16)
        self.closed = False  # whether a server has put it before all connections

    def refusal(self, port: int, request: Request) -> str | None:
        """Why a request is not answered, in words; None where it is."""
        own = {f"{name}:{port}" for name in NAMES}
        if set(request.headers.get_all("Host")) - own or "Host" not in request.headers:
            return "this is another computer's name"
        if set(request.headers.get_all("Origin")) - {f"http://{name}" for name in own}:
            return "this page does not talk to other sites"
        if not hmac.compare_digest(_first(request.path).encode(), self.token.encode()):
            return "open the address that was printed, with its token"
        return None

    def guard(self, answer: Answer, connection: ServerConnection, request: Request) -> Response | None:
        """What ``answer`` says to a request that is let through, without the token in its path."""
        refused = self.refusal(connection.local_address[1], request)
        if refused is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"refused: {refused}\n")
        path = self.inside(request)
        if path == SCENE or path.startswith(f"{SCENE}/"):
            made = answer(connection, replace(request, path=path.removeprefix(SCENE) or "/"))
            more = {"Content-Security-Policy": OWN_FRAME}
        elif request.headers.get("Upgrade", "").lower() == "websocket":
            known = path == FEED
            made, more = None if known else connection.respond(http.HTTPStatus.NOT_FOUND, "nothing listens here\n"), {}
        else:
            made, more = self.house.answer(path), {}
        if made is not None:
            made.headers.update({**PRIVATE, **more})
        return made

    def inside(self, request: Request) -> str:
        """The path of a request without the token and what is asked behind it."""
        rest = request.path.lstrip("/").removeprefix(self.token).partition("?")[0]
        return rest if rest.startswith("/") else f"/{rest}"

    async def handle(self, viser: Handler, connection: ServerConnection) -> None:
        """A connection that was let through: viser's own, or one of the page."""
        request = connection.request
        if request is not None and self.inside(request) == FEED:
            await self.house.talk(connection)
        else:
            await viser(connection)

    def stand_before(self, server: WebsockServer) -> None:
        """Puts the gate before all connections of a server that has not been started.

        viser hands no hook to its users, so its server runs with a ``serve`` of ours in place of the one it names.
        """
        run = WebsockServer._background_worker
        ours = SimpleNamespace(server=SimpleNamespace(serve=self._serve))
        stand_in = SimpleNamespace(**{**vars(websockets), "asyncio": ours})
        copy = FunctionType(run.__code__, {**run.__globals__, "websockets": stand_in}, closure=run.__closure__)
        server._background_worker = partial(copy, server)  # type: ignore[method-assign]

    def _serve(self, handler: Any, *where: Any, process_request: Answer, **given: Any) -> Any:
        self.closed = True
        asyncio.get_running_loop().set_exception_handler(_heed)
        guarded, handling = partial(self.guard, process_request), partial(self.handle, handler)
        return websockets.asyncio.server.serve(handling, *where, process_request=guarded, logger=_logger(), **given)

    def require(self) -> None:
        """Raises where a server was started without its gate, as another version of viser might."""
        if not self.closed:
            raise LinkError("the live page cannot be guarded with this version of viser: pip install 'viser>=1.1,<1.2'")


def _heed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Says nothing of connections for which there is no room: asyncio would, a hundred times per second and more."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in NO_ROOM):
        loop.default_exception_handler(context)


def _logger() -> logging.Logger:
    """Says nothing of strangers: what they send would stand in a traceback on the terminal."""
    made = logging.getLogger("stepmap_hil.live")
    if not made.filters:
        made.addFilter(lambda record: not str(record.msg).startswith(("opening handshake", "connection rejected")))
    return made


def _first(path: str) -> str:
    """The first part of a path."""
    return path.lstrip("/").partition("?")[0].partition("/")[0]
