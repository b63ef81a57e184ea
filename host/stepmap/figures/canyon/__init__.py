"""Figures 2 to 5 of Kobilarov et al.: one flight through a canyon."""
