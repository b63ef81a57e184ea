"""Searches through events: kinks, and gaps that are relaxed first."""
