"""What viewers draw of a recording: Foxglove's own schemas, which rerun and others read too."""

from stepmap_hil.runs.foxglove.layout import LAYOUT, layout
from stepmap_hil.runs.foxglove.scene import SceneWriter

__all__ = ["LAYOUT", "SceneWriter", "layout"]
