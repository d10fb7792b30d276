"""Kept for those who import it from here: see `spanmarker_core.default_model`."""

from spanmarker_core.default_model import bundled_model_path as bundled_model_path
