"""Models on disk or on the hub: config, files and digests. Building networks doesn't belong here."""
