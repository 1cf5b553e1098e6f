"""Whole-graph algorithms on compressed rows, in this process or block by block on other machines."""
