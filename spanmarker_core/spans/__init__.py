"""Candidate spans of windows, and decoding of their scores into entities. Neural networks don't belong here."""
