"""Where set-points come from while a board runs: a CSV file, a joystick."""
