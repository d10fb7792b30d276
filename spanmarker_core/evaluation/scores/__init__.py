"""Scores of predicted entities against gold, one kind per module. All are functions of arrays."""
