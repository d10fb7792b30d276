"""The shard tasks: the work of a worker on one shard. Nothing here depends on an engine."""
