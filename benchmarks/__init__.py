"""Measurements against peers, in one run each, as ratios."""
