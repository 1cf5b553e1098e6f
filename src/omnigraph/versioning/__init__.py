"""Manifest, snapshots, commits, refs, plans, the one door that publishes them, and recovery."""
