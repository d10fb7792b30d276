"""Model card of a bundle: description, training data, evaluation and limitations."""

from spanmarker_core.card.page import card_files, model_card, read_card_facts, rewrite_card

__all__ = ["card_files", "model_card", "read_card_facts", "rewrite_card"]
