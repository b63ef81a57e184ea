"""Campaigns on a Dask cluster: a scheduler and workers as processes of their own, on this computer."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepmap.campaigns import cluster, load
from stepmap.campaigns.cluster import ClusterError
from stepmap.campaigns.dispatch import LostWorkersError
from stepmap.errors import ModelError
from tests.campaigns import written
from tests.hil.commands import call
from tests.processes import TIED, ended, heed_signals, wait_for
from tests.undrawn import STEPMAP

pytestmark = [
    # distributed leaves sockets of a connection that was refused to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Cluster:
    """A scheduler, and workers that are started when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--no-dashboard", "--no-show", "--port", "0", "--scheduler-file", file
        )
        wait_for(lambda: file.exists() and '"address"' in file.read_text(), "the scheduler")
        self.address = file.read_text().partition('"address": "')[2].partition('"')[0]

    def add(self) -> None:
        self.workers.append(self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"))

    def _start(self, what: str, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", *map(str, words)]
        return subprocess.Popen(
            [*TIED, *command],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=heed_signals,
        )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add()
        made.add()
        yield made
    finally:
        made.close()


def test_a_worker_is_killed_then_the_scheduler(two: Cluster, tmp_path: Path) -> None:
    """Two workers make a table; one is killed meanwhile, and nothing is lost. Without scheduler there is an end."""
    path = written(tmp_path, trials=60, chunk=3)
    campaign = load(path)
    with ThreadPoolExecutor(1) as executor:
        here = campaign.run(executor, build=tmp_path / "here").folder.table.read_bytes()

    def kill_one(done: int, fresh: int, cpu_s: float) -> None:
        if fresh and not ended(two.workers[0].pid):
            two.workers[0].kill()
            two.workers[0].wait()

    finished = campaign.run(build=tmp_path / "there", scheduler=two.address, watch=kill_one)
    assert ended(two.workers[0].pid)
    assert finished.folder.table.read_bytes() == here
    assert finished.folder.sessions()[-1]["workers"] == f"2 workers of {two.address}"

    def kill_the_scheduler(done: int, fresh: int, cpu_s: float) -> None:
        if fresh:
            two.scheduler.kill()
            two.scheduler.wait()

    with pytest.raises(LostWorkersError, match="the workers are gone") as caught:
        campaign.run(build=tmp_path / "cut", scheduler=two.address, watch=kill_the_scheduler)
    assert "goes on" in caught.value.hint
    with ThreadPoolExecutor(1) as executor:
        resumed = campaign.run(executor, build=tmp_path / "cut")
    assert 0 < resumed.fresh < 120
    assert resumed.folder.table.read_bytes() == here


def test_a_scheduler_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that takes connections and says nothing: an error within the limit, and nothing is begun."""
    monkeypatch.setattr(cluster, "ANSWER_S", 2.0)
    path = written(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        words = [*STEPMAP, "campaign", str(path), "--build", str(tmp_path / "build"), "--scheduler", address]
        code, _, complaints = call(words)
    assert code == 1
    assert complaints.startswith(f"error: --scheduler: nothing answers at {address} within 2 s\n")
    assert not (tmp_path / "build").exists()


def test_a_scheduler_without_workers(tmp_path: Path) -> None:
    made = Cluster(tmp_path)
    try:
        with pytest.raises(ClusterError, match="has no worker after 1 s") as caught:
            cluster.ClusterWorkers(made.address, patience=1.0)
        assert f"dask worker {made.address}" in caught.value.hint
    finally:
        made.close()


def test_without_distributed_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepmap import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="distributed") as caught:
        cluster.ClusterWorkers("tcp://127.0.0.1:1")
    assert "stepmap[cluster]" in caught.value.hint
