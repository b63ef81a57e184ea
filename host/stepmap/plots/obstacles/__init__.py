"""Pictures of obstacles, and of the room that a motion keeps from them."""
