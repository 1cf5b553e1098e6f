"""The second executor: the same plans on Spark DataFrames. Loaded only when it is asked for."""
