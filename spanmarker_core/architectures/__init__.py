"""Names and options of the architectures. Needs no torch; the networks are in `models`."""
