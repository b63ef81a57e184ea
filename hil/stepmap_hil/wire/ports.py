"""Names of serial ports, which may stand in a rig file from elsewhere.

pyserial takes more than these: ``spy://`` writes to a file that the address names, ``alt://`` loads a class. So what is
allowed is listed, not what is forbidden.
"""

from __future__ import annotations

import os
import re
import stat
from urllib.parse import urlsplit

from stepmap.errors import LinkError, ModelError
from stepmap.text import printable

SCHEMES = ("socket", "rfc2217")
DEVICE = re.compile(r"/dev/(tty[\w.-]+|pts/\d+|cu\.[\w.-]+|rfcomm\d+)")  # where links of /dev/serial lead, too
WINDOWS = re.compile(r"(\\\\\.\\)?COM\d{1,3}", re.IGNORECASE)
OPTIONS = re.compile(r"[\w.=&-]*")
ALLOWED = "a serial device such as /dev/ttyUSB0, a pseudo terminal, socket://HOST:NUMBER or rfc2217://HOST:NUMBER"


def require_name(port: str) -> str:
    """The name of a port, if it can be one; whether anything is there is not asked."""
    shown = printable(port)
    if not port.strip():
        raise ModelError("the port is empty", hint=f"Name {ALLOWED}.")
    kind = port.partition("://")[0]
    if "://" in port and kind not in SCHEMES:
        raise ModelError(f"{shown} is no port", hint=f"Name {ALLOWED}.")
    if "://" in port and not _address(port):
        raise ModelError(f"{shown} is no address", hint=f"Write {kind}://HOST:NUMBER, such as {kind}://localhost:4000.")
    return port


def require_port(port: str) -> str:
    """The name of a port, if there is a device of that name or it is an address. Nothing is opened to find out."""
    require_name(port)
    if "://" in port or (os.name == "nt" and WINDOWS.fullmatch(port)):
        return port
    shown = printable(port)
    try:
        place = os.path.realpath(port)
        there = stat.S_ISCHR(os.stat(place).st_mode)
    except (OSError, ValueError):
        raise LinkError(f"there is no port {shown}", hint=f"Is it plugged in? Name {ALLOWED}.") from None
    if not there or not DEVICE.fullmatch(place):
        raise ModelError(f"{shown} is no serial device", hint=f"Name {ALLOWED}.")
    return port


def _address(port: str) -> bool:
    """Whether an address has a host and a number, and nothing that could mean more."""
    try:
        parts = urlsplit(port)
        return bool(parts.hostname and parts.port is not None and OPTIONS.fullmatch(parts.query)) and not (
            parts.path.strip("/") or parts.fragment or parts.username
        )
    except ValueError:  # not a number, or too large
        return False
