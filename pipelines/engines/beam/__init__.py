"""The Beam engine: its driver, the pipeline that it submits, and transforms for users' own pipelines."""
