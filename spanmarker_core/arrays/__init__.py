"""General array helpers; nothing here depends on text or models."""
