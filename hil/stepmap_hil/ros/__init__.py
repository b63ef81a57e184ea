"""ROS 2: runs as messages of its common types, in a bag or through Zenoh while they go on (docs/ros.md).

`ticks` takes from a run what is told, `messages` makes ROS 2 messages of it, `bag` writes those of a recording; `keys`
is how rmw_zenoh names and stamps them, `server` publishes them from a process of its own, `listener` hands them over.
"""
