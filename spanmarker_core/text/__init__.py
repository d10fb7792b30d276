"""From strings to words, sentences and tags. Nothing here knows a tokenizer's vocabulary or a model."""
