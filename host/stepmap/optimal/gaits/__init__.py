"""Gaits: periodic motions of contact modes, and what holds them through their landings."""
