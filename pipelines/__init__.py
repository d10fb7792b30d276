"""The pipelines: they read corpora, write Parquet, and hold plans, shard tasks, engines, reports and the CLI."""

#: Part of every job's identity: rows of two versions are never mixed in one output.
CODE_VERSION = "0.1.0"
