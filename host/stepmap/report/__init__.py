"""Reports: one HTML file that holds its pictures and its data, and asks nothing of the network."""

from stepmap.report.document import Bar, Grid, Picture, Section, made_with, page
from stepmap.report.simulated import constraint_forces, key_figures, section

__all__ = ["Bar", "Grid", "Picture", "Section", "constraint_forces", "key_figures", "made_with", "page", "section"]
