"""The state of an output folder: which job owns it, what is done, what is left. No table is written here."""
