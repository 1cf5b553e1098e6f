"""One module per noun of the command line."""
