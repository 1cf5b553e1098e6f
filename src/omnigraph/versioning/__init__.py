"""Manifest, snapshots, commits, refs, plans, the publisher that makes plans visible, and recovery."""
