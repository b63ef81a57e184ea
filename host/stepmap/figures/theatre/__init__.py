"""Figures of plays."""
