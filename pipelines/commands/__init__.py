"""The commands of `spanmarker`, one a file. Heavy imports happen inside them, so that `--help` is quick."""
