"""A Kinect on the bench: its driver, frames rendered for it, and what a tracker reads from them."""

from stepmap_hil.depth.calibrate import Calibration, calibrate, sight
from stepmap_hil.depth.camera import NO_DATA, Camera, look
from stepmap_hil.depth.driver.feed import FakeKinect
from stepmap_hil.depth.driver.kinect import TICKS, Frame, Kinect
from stepmap_hil.depth.driver.recording import Recorder
from stepmap_hil.depth.errors import CalibrationError, CameraError, RecordingEnd
from stepmap_hil.depth.noise import NONE, Noise
from stepmap_hil.depth.render import Renderer
from stepmap_hil.depth.scene import Box, Scene
from stepmap_hil.depth.tracking.matching import Prediction
from stepmap_hil.depth.tracking.segment import Background
from stepmap_hil.depth.tracking.tracker import CHANNELS, Reading, Sight, Tracker

__all__ = [
    "CHANNELS",
    "NONE",
    "NO_DATA",
    "TICKS",
    "Background",
    "Box",
    "Calibration",
    "CalibrationError",
    "Camera",
    "CameraError",
    "FakeKinect",
    "Frame",
    "Kinect",
    "Noise",
    "Prediction",
    "Reading",
    "Recorder",
    "RecordingEnd",
    "Renderer",
    "Scene",
    "Sight",
    "Tracker",
    "calibrate",
    "look",
    "sight",
]
