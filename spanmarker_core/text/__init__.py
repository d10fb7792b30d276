"""Words, sentences and tags of strings; nothing here depends on a tokenizer's vocabulary or a model."""
