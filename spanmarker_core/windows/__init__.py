"""From sentences to windows of tokens: encoding, planning, packing. No network."""
