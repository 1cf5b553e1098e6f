"""Executors of one query plan."""
