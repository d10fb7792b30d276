"""Planning: inputs are cut into shards. Nothing here reads documents or depends on an engine."""
