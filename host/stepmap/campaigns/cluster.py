"""Workers of a Dask cluster, through its executor: SLURM, Kubernetes or a lab's computers look the same from here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import stepmap
from stepmap.errors import ModelError, StepmapError
from stepmap.extras import require

ANSWER_S = 15.0  # a scheduler that has not answered by then does not
WORKERS_S = 120.0  # for the first worker of a cluster that starts them on demand


class ClusterError(StepmapError):
    """A cluster that cannot be used, or that is gone."""


class ClusterWorkers:
    """Workers that a scheduler knows; raises ClusterError within a bounded time where it does not answer.

    A worker that is killed costs nothing but its chunk: the scheduler gives that to another one.
    """

    def __init__(self, address: str, *, answer: float | None = None, patience: float = WORKERS_S) -> None:
        require("cluster", "--scheduler", "distributed")
        import distributed

        if not address.strip():
            raise ModelError(
                "--scheduler: expected an address like tcp://10.0.0.7:8786", hint="dask scheduler prints it."
            )
        self.address, answer = address, ANSWER_S if answer is None else answer
        self._client: Any = None
        with _Silence():
            try:
                require_answer(address, answer)
                client: Any = distributed.Client
                self._client = client(address, timeout=answer, set_as_default=False)
            except (OSError, TimeoutError, ValueError) as error:
                raise ClusterError(
                    f"--scheduler: nothing answers at {address} within {answer:g} s",
                    cause=str(error).partition("\n")[0],
                    hint="Is it the address that dask scheduler prints, and can this computer reach it?",
                ) from None
        try:
            self._require_workers(patience)
            self._executor = self._client.get_executor()
            cores = sum(int(worker["nthreads"]) for worker in self._known().values())
        except BaseException:
            self.stop()
            raise
        self.count = max(cores, 1)
        self.name = f"{len(self._known())} workers of {address}"

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(call, *arguments)
        return future

    def renewed(self) -> bool:
        """Whether the scheduler is still there: it has started work of lost workers again itself, a few times."""
        return bool(self._client.status == "running")

    @property
    def gone(self) -> bool:
        """Whether the scheduler does not answer any more."""
        return bool(self._client.status not in ("running", "connecting"))

    def stop(self) -> None:
        if self._client is not None:
            with _Silence(), suppress(Exception):
                self._client.close(timeout=ANSWER_S)

    def _known(self) -> dict[str, Any]:
        known: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return known

    def _require_workers(self, patience: float) -> None:
        """Raises where there is none, or one with another stepmap."""
        try:
            self._client.wait_for_workers(1, timeout=patience)
            versions = self._client.run(_version)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"--scheduler: {self.address} has no worker after {patience:g} s",
                cause=str(error).partition("\n")[0],
                hint=f"dask worker {self.address} starts one.",
            ) from None
        except Exception as error:
            raise ClusterError(
                f"--scheduler: workers of {self.address} cannot import stepmap",
                cause=f"{type(error).__name__}: {error}",
                hint="Install the same stepmap there.",
            ) from None
        others = {worker: other for worker, other in versions.items() if other != _version()}
        if others:
            worker, other = next(iter(others.items()))
            raise ClusterError(
                f"--scheduler: worker {worker} has stepmap {other}, and this is {_version()}",
                hint="A table is made by one version: install the same everywhere.",
            )


def require_answer(address: str, answer: float) -> None:
    """Raises OSError or TimeoutError where no scheduler says who it is in time.

    A client of Dask waits for ever for one that takes the connection and says nothing. In a thread of its own, as this
    one may have an event loop already.
    """
    from distributed import comm as comms

    reach: Any = comms.connect  # type: ignore[attr-defined]

    async def ask() -> object:
        comm = await reach(address, timeout=answer)
        try:
            await comm.write({"op": "identity", "n_workers": 0})
            return await comm.read()
        finally:
            comm.abort()

    async def in_time() -> object:
        return await asyncio.wait_for(ask(), answer)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, in_time()).result()


def _version() -> str:
    """Of the stepmap that runs here, with a digest of its sources."""
    from stepmap.jobs.stage import digest_sources

    return f"{stepmap.__version__} ({digest_sources('stepmap', ['.'])[:12]})"


class _Silence:
    """While the block runs, distributed says nothing: what matters becomes an error."""

    def __enter__(self) -> None:
        self._level = logging.getLogger("distributed").level
        logging.getLogger("distributed").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("distributed").setLevel(self._level)
