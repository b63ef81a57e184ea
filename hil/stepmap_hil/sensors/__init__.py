"""What sees the plant, one file per sensor, and how frames are read and delayed. docs/sensors.md: how to add one."""
