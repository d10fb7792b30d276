"""BL-NER: SpanNER and SeqNER bundled on one encoder and trained on the weighted sum of their losses (Ji et al. 2022).

With option `output` "spans" it is the paper's BL-SpanNER, with "tags" its BL-SeqNER.
"""

from spanmarker_core.models.span_ner import SpanNerModel


class BlNerModel(SpanNerModel):
    """A `SpanNerModel` with a sequence head; the defaults of its options are the paper's."""
