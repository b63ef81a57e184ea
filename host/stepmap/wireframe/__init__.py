"""Mechanisms as points and lines, and where to look at them from; whatever draws them."""
