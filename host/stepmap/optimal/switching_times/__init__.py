"""Times at which laws or acts change, found by Newton's method with exact derivatives: phases and windows."""

from stepmap.optimal.switching_times.phases import Switching, switching
from stepmap.optimal.switching_times.sampled import SampledAct
from stepmap.optimal.switching_times.solution import SwitchingSolution
from stepmap.optimal.switching_times.windows import Script, ScriptSolution, script

__all__ = ["SampledAct", "Script", "ScriptSolution", "Switching", "SwitchingSolution", "script", "switching"]
