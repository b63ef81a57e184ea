"""The live page in a process of its own: ``RemotePage`` starts it and speaks to it through pipes.

Orders come in as pickles on its input; its address, STOP, faults and layers go out as lines. It ends when its input
ends, so also when the process that started it dies.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import IO, Any

from stepmap_hil.live.page import LivePage

ORDERS = ("update", "wait", "offer", "offer_points", "note", "finish", "saved")
NICE = 5  # a run in real time comes first


class _Served(LivePage):
    """Passes on what the user asks for."""

    def __init__(self, output: IO[str], **given: Any) -> None:
        self._output = output
        super().__init__(**given)
        print(self.url, file=output, flush=True)

    def _meet(self) -> None:
        print("opened", file=self._output, flush=True)

    def _request_stop(self) -> None:
        print("stop", file=self._output, flush=True)
        super()._request_stop()

    def _switch(self, name: str, on: bool) -> None:
        print(f"layer {name} {'on' if on else 'off'}", file=self._output, flush=True)
        super()._switch(name, on)

    def _inject(self, name: str) -> None:
        print(f"fault {name}", file=self._output, flush=True)
        super()._inject(name)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this
    os.nice(NICE)
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no message
    orders = sys.stdin.buffer
    system, given = pickle.load(orders)
    with _Served(output, system=system.make(), **given) as page:
        while True:
            try:
                order, arguments = pickle.load(orders)
            except EOFError:
                return
            if order not in ORDERS:
                raise ValueError(f"no order is called {order!r}")
            getattr(page, order)(*arguments)


if __name__ == "__main__":
    main()
