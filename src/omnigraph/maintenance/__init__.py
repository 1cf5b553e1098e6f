"""Physical maintenance: never changes the rows or the schema of a graph."""
