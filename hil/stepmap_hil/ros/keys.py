"""How rmw_zenoh, ROS 2 over Zenoh, names topics, announces publishers and stamps messages.

After docs/design.md of ros2/rmw_zenoh; `rmw_zenoh_cpp` of Jazzy from 0.2.4 on, Kilted and later read it so.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepmap.errors import ModelError

if TYPE_CHECKING:
    from stepmap_hil.ros.messages import Topic

ADMIN = "@ros2_lv"  # key expressions with stars do not match it
NODE = "stepmap"
ATTACHED = struct.Struct("<qqB16s")  # sequence number, ns since 1970, bytes of the id, the id
MOST_DOMAIN = 232  # what ROS 2 allows
ENDPOINT = re.compile(r"(?:tcp|udp|tls|quic|ws)/(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")


def domain() -> int:
    """The domain of ROS 2, from the environment as all of its programs take it."""
    told = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not told.isdecimal() or int(told) > MOST_DOMAIN:
        raise ModelError(
            f"ROS_DOMAIN_ID is {told!r}, and domains are 0 to {MOST_DOMAIN}", hint="Set it right, or unset it for 0."
        )
    return int(told)


def require_endpoint(text: str) -> None:
    """Raises where a text is no endpoint of Zenoh."""
    found = ENDPOINT.fullmatch(text)
    if found is None or not 0 < int(found[1]) < 2**16:
        raise ModelError(
            f"--ros-connect: {text!r} is no endpoint of Zenoh", hint="Name a router as in tcp/192.168.1.5:7447."
        )


def dds_name(type: str) -> str:
    """A type as DDS calls it: std_msgs/msg/String is std_msgs::msg::dds_::String_."""
    package, kind, name = type.split("/")
    return f"{package}::{kind}::dds_::{name}_"


def mangled(name: str) -> str:
    return name.replace("/", "%")


@dataclass(frozen=True)
class Keys:
    """Key expressions of one session."""

    domain: int
    session: str  # its id, in hexadecimal digits
    namespace: str

    def topic(self, topic: Topic, digest: str) -> str:
        """Where messages of a topic are put; ``digest`` is the hash of its type."""
        return f"{self.domain}/{topic.name.strip('/')}/{dds_name(topic.type)}/{digest}"

    def node(self) -> str:
        """The token of our node; ids count from 0 in a session."""
        return f"{ADMIN}/{self.domain}/{self.session}/0/0/NN/%/{mangled(self.namespace)}/{NODE}"

    def publisher(self, number: int, topic: Topic, digest: str) -> str:
        """The token of a publisher, reliable and volatile, by its number in the session."""
        named = f"{mangled(topic.name)}/{dds_name(topic.type)}/{digest}/::,{topic.depth}:,:,:,,"
        return f"{ADMIN}/{self.domain}/{self.session}/0/{number}/MP/%/{mangled(self.namespace)}/{NODE}/{named}"


def publisher_id(token: str) -> bytes:
    """The id of a publisher: the 128 bits of XXH3 of its token, the lower half first."""
    import xxhash  # of an extra

    return int(xxhash.xxh3_128_intdigest(token.encode())).to_bytes(16, "little")


def attachment(sequence: int, stamp: int, publisher: bytes) -> bytes:
    """What goes with a message."""
    return ATTACHED.pack(sequence, stamp, len(publisher), publisher)
