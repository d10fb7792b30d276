"""Names and options of the architectures. The networks are in `spanmarker_core.models`; nothing here imports torch."""
