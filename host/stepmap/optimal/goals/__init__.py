"""Reaching a pose and staying there: natural weights, starts and horizons to try, and whether the plan will hold."""
