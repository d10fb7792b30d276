"""Tagging: loading of networks, batching of windows, entities from scores. Training doesn't belong here."""
