"""Names of the files in which Beam workers record attempts under way and the reasons of failures."""

#: Folder of the output in which workers record permanent failures: `failures/SHARD.json`, or
#: `failures/SHARD.changed.json` for a shard whose input changed.
FAILURES = "failures"
CHANGED = ".changed"
#: Suffix of the files in that folder that mark an attempt as under way.
BEGUN = ".begun"
