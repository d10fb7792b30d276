"""Reads and writes annotated documents in the formats of other tools; `registry.py` lists them."""
