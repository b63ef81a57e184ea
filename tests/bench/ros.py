"""What ROS 2 costs: handing a tick to the bridge, publishing it there, and a bag of the main job's ten seconds.

    python -m tests.bench.ros [--docs]

CPU time alone. A second session of Zenoh subscribes to everything, as tools of ROS would. Writes build/bench/ros.json,
a list of rows (case, value, unit); with --docs its figures into docs/ros.md.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import zenoh

from stepmap.files import write_whole
from stepmap.jobs.system import source_of
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.report import write as results
from stepmap_hil.ros.bag import write_bag
from stepmap_hil.ros.listener import WAITING, RemoteBridge, RosRun
from stepmap_hil.ros.server import Asked
from stepmap_hil.ros.ticks import TickReader, signals
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import Row
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.runs.recording import read_run
from stepmap_hil.wire.dialect import Message
from tests.hil.rigs import quiet, rig, source
from tests.hil.test_ros_bag import FACTS
from tests.pages import ROOT

PAGE = ROOT / "docs" / "ros.md"
TOLD = re.compile(r"(?<=<!-- costs -->\n).*?(?=\n<!-- -->)", re.DOTALL)
REPEATED = 10  # times that a run is handed over


class _Noted(RunListener):
    """What a run tells its listener."""

    def __init__(self) -> None:
        self.ticks: list[tuple[Row, Message]] = []

    def on_tick(self, row: Row, message: Message) -> None:
        self.ticks.append((row, message))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", action="store_true")
    docs = parser.parse_args().docs
    with tempfile.TemporaryDirectory() as scratch:
        noted = _Noted()
        path = _recorded(Path(scratch) / "run.mcap", noted)
        rows = [*_bridge(noted.ticks), *_bag(path, Path(scratch) / "bag", noted.ticks)]
    write_whole(ROOT / "build" / "bench" / "ros.json", (json.dumps(rows, indent=1) + "\n").encode())
    for row in rows:
        print(f"{row['case']:45}{row['value']:10.3g} {row['unit']}")
    if docs:
        values = {str(row["case"]): f"{row['value']:.{3 if row['case'] == 'bag, ticks' else 2}g}" for row in rows}
        write_whole(PAGE, TOLD.sub(lambda _: _sentence(values), PAGE.read_text()).encode())


def _sentence(values: dict[str, str]) -> str:
    handed, sent = values["tick, handed over"], values["tick, published"]
    ticks, written, size = values["bag, ticks"], values["bag, written"], values["bag, size"]
    return (
        f"On the main job, in CPU time: handing over a tick takes {handed} µs of the run's thread, "
        f"encoding and publishing it\n{sent} ms of the bridge. A bag of {ticks} ticks takes {written} s and {size} MB "
        "(`make bench-ros`)."
    )


def _recorded(path: Path, noted: _Noted) -> Path:
    made = rig()
    with Recorder(path, made.about(), source().attachments()) as recorder:
        run = closed_loop(made, recorder, quiet, listener=noted)
        results.conclude(recorder, run, FACTS)
        results.complete(recorder, None, FACTS)
    return path


def _bridge(ticks: list[tuple[Row, Message]]) -> list[dict[str, object]]:
    made = rig()
    asked = Asked(source_of(made.job), signals(made.controller, made.job.name, simulated=True), domain=0, router=None)
    idle, _, _ = _children(asked, made.controller, [])
    busy, handed, dropped = _children(asked, made.controller, ticks * REPEATED)
    count = len(ticks) * REPEATED
    return [
        {"case": "tick, handed over", "value": 1e6 * handed / count, "unit": "µs of CPU time"},
        {"case": "tick, published", "value": 1e3 * (busy - idle) / count, "unit": "ms of CPU time"},
        {"case": "ticks dropped", "value": dropped, "unit": f"of {count}"},
    ]


def _children(asked: Asked, controller: object, ticks: list[tuple[Row, Message]]) -> tuple[float, float, int]:
    """CPU time [s] of a bridge, and of the thread that hands over; ticks dropped."""
    begun = _spent()
    with RemoteBridge(replace(asked)) as bridge:
        config = zenoh.Config()
        config.insert_json5("connect/endpoints", json.dumps([bridge.endpoint]))
        config.insert_json5("scouting/multicast/enabled", "false")
        with zenoh.open(config) as session:
            session.declare_subscriber("**", lambda sample: None)
            run = RosRun(bridge, TickReader(controller, simulated=True), paced=False)  # type: ignore[arg-type]
            handed = 0.0
            for row, message in ticks:
                while bridge._orders.qsize() > WAITING // 2:
                    time.sleep(0.01)
                at = time.thread_time()
                run.on_tick(row, message)
                handed += time.thread_time() - at
            bridge.close()
    return _spent() - begun, handed, bridge.dropped


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _bag(path: Path, folder: Path, ticks: list[tuple[Row, Message]]) -> list[dict[str, object]]:
    recorded = read_run(path)
    at = time.process_time()
    write_bag(folder, path, recorded)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return [
        {"case": "bag, ticks", "value": len(ticks), "unit": ""},
        {"case": "bag, written", "value": time.process_time() - at, "unit": "s of CPU time"},
        {"case": "bag, size", "value": size / 1e6, "unit": "MB"},
    ]


if __name__ == "__main__":
    main()
