"""What a worker does with one shard. Nothing here knows an engine."""
