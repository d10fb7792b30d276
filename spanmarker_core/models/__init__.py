"""The networks, one architecture per file, and the parts that they share."""
