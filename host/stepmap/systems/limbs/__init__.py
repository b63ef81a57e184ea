"""Limbs that are moved by strings and tendons."""
