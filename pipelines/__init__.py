"""The pipelines: they read corpora, write Parquet, and hold plans, shard tasks, engines, reports and the CLI."""

from spanmarker_core import __version__

__all__ = ["CODE_VERSION", "__version__"]

#: Part of every job's identity: rows of two versions are never mixed in one output.
CODE_VERSION = __version__
