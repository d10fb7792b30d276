"""The stages: read, split, pack, align, tag, write. They work on batches in memory and never call an engine."""
