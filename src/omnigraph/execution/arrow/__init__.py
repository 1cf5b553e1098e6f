"""The in-process executor: columns in Arrow, traversal on compressed sparse rows in NumPy."""
