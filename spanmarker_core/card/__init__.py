"""The model card of a bundle: what it is, what it was trained on, how good it is, what it is not for."""

from spanmarker_core.card.page import card_files, model_card, read_card_facts, rewrite_card

__all__ = ["card_files", "model_card", "read_card_facts", "rewrite_card"]
