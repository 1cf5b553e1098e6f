"""Reading input files: where they lie, how they are written, and their rows with the number of each."""
