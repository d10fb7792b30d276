"""Corpora in, Parquet out: plans, shard tasks, engines, reports, the `spanmarker` command."""

#: Part of every job's identity: rows of two versions are never mixed in one output.
CODE_VERSION = "0.1.0"
