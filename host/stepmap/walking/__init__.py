"""Robots that walk: a gait as a schedule, a filter that is renamed at landings, and a plant with impacts."""
