"""Filters by name, found by entry points of the group ``stepmap.filters``.

An entry point's name is that of the filter; it loads to a class or a function, see ``protocol.MakeFilter``.
"""

from __future__ import annotations

from stepmap.estimate.ekf import ExtendedKalmanFilter
from stepmap.estimate.particle import ParticleFilter
from stepmap.estimate.protocol import MakeFilter
from stepmap.registry import Registry

DEFAULT = "ekf"
OWN: dict[str, MakeFilter] = {DEFAULT: ExtendedKalmanFilter, "particle": ParticleFilter}
FILTERS = Registry[MakeFilter].of("stepmap.filters", "filter", OWN)

names, added, maker = FILTERS.names, FILTERS.added, FILTERS.get
