"""Processes of this program: limits, start and exit, and isolated processes for work that may crash."""
