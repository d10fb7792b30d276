"""Representations of spans: which spans are compared, and how far labels lie apart."""
