"""Why the supervisor changed its state or refused a command, in words, with what to do about it.

The codes are those of `sm_reason` in firmware/core/sm_supervisor.h; docs/supervisor.md lists the same words.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Reason(IntEnum):
    """What telemetry carries."""

    NONE = 0
    BOOTED = 1
    SELF_TEST = 2
    CALIBRATE_COMMAND = 3
    ARM_COMMAND = 4
    RUN_COMMAND = 5
    STOP_COMMAND = 6
    RESET_COMMAND = 7
    CALIBRATED = 8
    CALIBRATION_FAILED = 9
    CALIBRATION_TIMEOUT = 10
    NO_MEASUREMENT = 11
    MEASUREMENT_BACK = 12
    HOLD_EXPIRED = 13
    GATED = 14
    INNOVATION = 15
    COVARIANCE = 16
    MOTOR_FOLLOWING = 17
    MOTOR_ENCODER = 18
    MOTOR_DRIVER = 19
    LINK_LOST = 20
    OVERRUN = 21
    WRONG_STATE = 22
    NOT_CALIBRATED = 23
    NO_SCHEDULE = 24
    FAR_FROM_START = 25
    MOTOR_LATE = 26
    NO_LANDING = 27
    SUPPLY = 28


class Explanation(NamedTuple):
    """What happened, and what the user can do; no remedy where nothing is wrong."""

    meaning: str
    remedy: str = ""


EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.NONE: Explanation("nothing has happened yet"),
    Reason.BOOTED: Explanation("the self-test passed"),
    Reason.SELF_TEST: Explanation(
        "the self-test failed", "read the log for the part that failed, build and flash again, then reset"
    ),
    Reason.CALIBRATE_COMMAND: Explanation("calibration was commanded"),
    Reason.ARM_COMMAND: Explanation("arming was commanded"),
    Reason.RUN_COMMAND: Explanation("running was commanded"),
    Reason.STOP_COMMAND: Explanation("a stop was commanded"),
    Reason.RESET_COMMAND: Explanation("a reset was commanded"),
    Reason.CALIBRATED: Explanation("the calibration is done"),
    Reason.CALIBRATION_FAILED: Explanation(
        "the calibration failed", "let the robot stand still in full view of the sensor and calibrate again"
    ),
    Reason.CALIBRATION_TIMEOUT: Explanation(
        "the calibration took too long", "see that measurements arrive and are valid, then calibrate again"
    ),
    Reason.NO_MEASUREMENT: Explanation(
        "no valid measurement for too long", "see that the sensor sees the robot and that the link keeps up"
    ),
    Reason.MEASUREMENT_BACK: Explanation("measurements came back in time"),
    Reason.HOLD_EXPIRED: Explanation(
        "no measurement came back while holding",
        "see that the sensor sees the robot, then reset (stepmap stop), arm and run",
    ),
    Reason.GATED: Explanation(
        "measurements stayed implausible", "look for a tracker on the wrong object or a start far from the schedule's"
    ),
    Reason.INNOVATION: Explanation(
        "measurements and model disagree more than the noise allows",
        "look for missed deadlines, then compare mass, lengths and noise of the job with the robot",
    ),
    Reason.COVARIANCE: Explanation(
        "the estimate became too uncertain", "see which channels are missing; the robot must stay in view"
    ),
    Reason.MOTOR_FOLLOWING: Explanation(
        "a motor did not follow its target", "look for a blocked axis, lost motor power or a command that is too fast"
    ),
    Reason.MOTOR_ENCODER: Explanation(
        "an encoder counted faster than its motor can turn, or lost counts",
        "check the encoder's cable, then reset and calibrate again",
    ),
    Reason.MOTOR_DRIVER: Explanation(
        "a motor driver pulled its fault line",
        "check motor power and the driver's temperature, then reset (stepmap stop)",
    ),
    Reason.LINK_LOST: Explanation("the host was not heard any more", "check the cable and that the host still runs"),
    Reason.OVERRUN: Explanation(
        "ticks were not done in time", "use a longer period, a smaller model or a faster board"
    ),
    Reason.WRONG_STATE: Explanation(
        "refused: not possible in this state",
        "the way is reset, calibrate, arm, run; stepmap stop leads to idle, which uploads need",
    ),
    Reason.NOT_CALIBRATED: Explanation("refused: the encoders have no zero", "calibrate first"),
    Reason.NO_SCHEDULE: Explanation("refused: there is no schedule for this model", "upload one"),
    Reason.FAR_FROM_START: Explanation(
        "refused: a motor is not where the schedule begins", "move the robot there, then calibrate, arm and run"
    ),
    Reason.MOTOR_LATE: Explanation(
        "the motors were not served in time",
        "see what floods the line (stepmap monitor), use a smaller model or a faster board; then reset (stepmap stop)",
    ),
    Reason.NO_LANDING: Explanation(
        "a foot did not come down in time",
        "see that the foot switch closes; a robot that fell needs gains or a gait that hold it better",
    ),
    Reason.SUPPLY: Explanation(
        "the supply of the board was too low",
        "measure it while the motors pull, then restart (stepmap stop --restart)",
    ),
}


def explanation(code: int) -> Explanation:
    """What a code of telemetry means, and the remedy."""
    try:
        return EXPLANATIONS[Reason(code)]
    except ValueError:
        return Explanation(f"reason {code}, unknown here", "the firmware is newer than this program: update stepmap")


def explain(code: int) -> str:
    """The same as one line."""
    meaning, remedy = explanation(code)
    return f"{meaning}; {remedy}" if remedy else meaning
