"""The state of an output folder: its job, its finished shards, its pending shards. No table is written here."""
