"""A model on disk or on the hub: its config, its files, their digests. Nothing here builds a network."""
