"""Inputs and coordinates in expressions."""
