"""The commands of `spanmarker`, one per file. They import what they need when they run, so that --help is fast."""
