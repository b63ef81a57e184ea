"""Poses q̄ as numbers: unit quaternions among them, their tangent space, and values by name."""
