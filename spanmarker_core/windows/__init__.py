"""Windows of tokens from sentences: encoding, planning, packing. Neural networks don't belong here."""
