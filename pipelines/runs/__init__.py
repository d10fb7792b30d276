"""Drivers: from a job to a finished output. What a worker does with a shard is in `shards`."""
