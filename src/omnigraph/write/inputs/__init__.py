"""Reading input files: their location, their format, and their rows with the number of each."""
