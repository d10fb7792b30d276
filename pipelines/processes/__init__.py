"""Processes of this program: their limits, how they start and end, and isolated ones for work that may crash."""
