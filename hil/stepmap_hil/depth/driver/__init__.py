"""The Kinect's driver: libfreenect in a process of its own, and recordings or rendered frames in place of a camera."""
