"""Candidate spans of windows, and entities from their scores. No network."""
