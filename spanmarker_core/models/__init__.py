"""The networks, one architecture per file, and the parts that they share. Text and files don't belong here."""
