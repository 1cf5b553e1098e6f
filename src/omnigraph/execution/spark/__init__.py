"""The Spark executor: executes the same plans on DataFrames. Imported on first use."""
