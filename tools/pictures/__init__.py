"""Pictures of the documentation that are drawn, not photographed."""
