"""Bundles where other libraries look for them. Each module needs the library that it is named after."""
