"""Physical upkeep: never changes what a graph means."""
