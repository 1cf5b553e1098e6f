"""The namespaces of `Graph`: `graph.branches`, `graph.commits` and so on."""
