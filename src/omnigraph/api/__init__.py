"""The contract of every surface: what is asked (requests), what is answered (results), and how both travel.

Pure: no store, no clock, no thread. `Graph`, the command line, the server and the remote client are made from it; the
engine below answers it.
"""
