"""Prepared training data: windows with gold entities, as `spanmarker train` reads them. Nothing here is written."""
