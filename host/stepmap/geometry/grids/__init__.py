"""Signed distances of what has no formula: triangles, their exact distances on a grid, and its spline."""
