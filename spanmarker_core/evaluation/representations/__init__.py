"""Analysis of span representations: a sample of spans, and the distances between and within labels."""
