"""Files in which workers of the Beam engine say which shards are under way, and why others failed."""

#: Folder in the output in which workers say why a shard failed for good: `failures/SHARD.json`, or
#: `failures/SHARD.changed.json` for one whose input changed.
FAILURES = "failures"
CHANGED = ".changed"
#: Ending of the names of files there that say that an attempt at a shard is under way.
BEGUN = ".begun"
