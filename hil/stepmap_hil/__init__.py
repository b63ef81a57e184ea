"""Robots on the bench: boards, links, plants and what they report."""
