"""Executors of query plans: in process on Arrow, and on Spark; and algorithms over whole graphs."""
