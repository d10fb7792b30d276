"""The stages: read, split, pack, align, tag, write. They work on Arrow record batches and never call an engine."""
