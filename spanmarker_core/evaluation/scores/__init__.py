"""Scores of predicted entities against gold entities, one kind per module. All are functions of arrays."""
