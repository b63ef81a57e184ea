"""Who may speak to the live page: pages that it served itself, with the token of its address.

A browser lets any site open connections to this computer; whoever has one can press STOP and inject faults. So a
connection is refused in its handshake, before a byte of it is heard, unless all of this holds:

- its address begins with the token, which only the printed address has,
- its Host is this server's: a site whose name was made to lead here has another,
- its Origin, where a browser names one, is this server's.
"""

from __future__ import annotations

import hmac
import http
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, TypeAlias

import websockets
import websockets.asyncio.server
from viser.infra import WebsockServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from stepmap.errors import LinkError

NAMES = ("127.0.0.1", "localhost")
Answer: TypeAlias = Callable[[ServerConnection, Request], Response | None]
PRIVATE = {"Referrer-Policy": "no-referrer", "Content-Security-Policy": "frame-ancestors 'none'"}


class Gate:
    """Refuses strangers; ``token`` is what they do not know."""

    def __init__(self) -> None:
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
        rest = request.path.lstrip("/").removeprefix(self.token)
        made = answer(connection, replace(request, path=rest if rest.startswith("/") else f"/{rest}"))
        if made is not None:
            made.headers.update(PRIVATE)
        return made

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
        guarded = partial(self.guard, process_request)
        return websockets.asyncio.server.serve(handler, *where, process_request=guarded, logger=_logger(), **given)

    def require(self) -> None:
        """Raises where a server was started without its gate, as another version of viser might."""
        if not self.closed:
            raise LinkError("the live page cannot be guarded with this version of viser: pip install 'viser>=1.1,<1.2'")


def _logger() -> logging.Logger:
    """Says nothing of strangers: what they send would stand in a traceback on the terminal."""
    made = logging.getLogger("stepmap_hil.live")
    if not made.filters:
        made.addFilter(lambda record: not str(record.msg).startswith(("opening handshake", "connection rejected")))
    return made


def _first(path: str) -> str:
    """The first part of a path."""
    return path.lstrip("/").partition("?")[0].partition("/")[0]
