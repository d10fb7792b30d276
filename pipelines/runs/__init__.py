"""Drivers of commands, from a job to a finished output. The work of a worker on one shard is in `shards`."""
