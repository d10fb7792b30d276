"""The commands of `spanmarker`, one a file. They import what they need when they run, so that --help is quick."""
