"""Cuts inputs into shards. Nothing here reads a document, and nothing knows an engine."""
