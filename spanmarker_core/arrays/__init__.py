"""Array helpers that know nothing of text or models."""
