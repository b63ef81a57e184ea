"""What happened in a run: its log, its recording, its folder, the verdict and the diagnosis. Draws nothing."""
