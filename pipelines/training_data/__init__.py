"""Prepared training data: windows with their gold entities, as `spanmarker train` reads them."""
