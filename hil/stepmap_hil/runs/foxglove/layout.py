"""foxglove-layout.json: panels for a recording, to be imported in Foxglove."""

from __future__ import annotations

import json
from typing import Any

from stepmap_codegen import Controller

LAYOUT = "foxglove-layout.json"  # the name of its file
MOST = 6  # lines of a plot


def layout(controller: Controller) -> str:
    """A scene in three dimensions, plots of coordinates and commands, states, the log."""
    step = controller.plant.step
    names = [c.name for c in step.system.coordinates][:MOST]
    plots = {
        "Plot!coordinates": [f"/{topic}.{name}" for name in names for topic in ("plant", "reference")],
        "Plot!commands": [f"/command.{name}" for name in step.input_names[:MOST]],
    }
    configs: dict[str, Any] = {
        "3D!scene": {
            "followTf": "world",
            "topics": {"/scene": {"visible": True}, "/points": {"visible": True, "pointSize": 3}},
            "scene": {"enableStats": False},
        },
        **{
            panel: {"paths": [{"value": path, "enabled": True, "timestampMethod": "receiveTime"} for path in paths]}
            for panel, paths in plots.items()
        },
        "StateTransitions!state": {"paths": [{"value": "/state.state", "timestampMethod": "receiveTime"}]},
        "RosOut!log": {"topicToRender": "/log"},
    }
    below = {"direction": "column", "first": "StateTransitions!state", "second": "RosOut!log", "splitPercentage": 40}
    right = {"direction": "column", "first": "Plot!coordinates", "second": "Plot!commands", "splitPercentage": 50}
    left = {"direction": "column", "first": "3D!scene", "second": below, "splitPercentage": 65}
    made = {"configById": configs, "globalVariables": {}, "userNodes": {}, "playbackConfig": {"speed": 1.0}}
    whole = {"direction": "row", "first": left, "second": right, "splitPercentage": 50}
    return json.dumps({**made, "layout": whole}, indent=1) + "\n"
