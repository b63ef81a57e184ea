"""Sensors, one file each, their measurements, and how frames are read and delayed. docs/sensors.md: how to add one."""
