"""The contract of every surface: requests, their results, and the wire form of both.

Pure: no store, no clock, no thread. `Graph`, the command line, the server and the remote client are built on it; the
engine below implements it.
"""
