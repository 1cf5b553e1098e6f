"""The `omnigraph` command: text in, text out. Everything it does is one call of the `Graph` facade."""
