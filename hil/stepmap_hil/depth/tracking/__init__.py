"""From a depth frame to positions: foreground, clusters, the ball, the face of the robot, the channels."""
