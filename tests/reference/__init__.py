"""A second opinion on every query: a naive interpreter that shares nothing with the engine but the IR it reads."""
