"""Evaluation of models on annotated sentences: predictions, scores and reports."""
