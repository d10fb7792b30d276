"""Text in, entities out: loads a network, batches windows, decodes scores."""
