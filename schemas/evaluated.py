"""Evaluated sentences: gold and predicted entities, from which two models can be compared without loading them."""

import pyarrow as pa

from schemas.tables import Table

_BOUNDS = [pa.field("start", pa.int32(), nullable=False), pa.field("end", pa.int32(), nullable=False)]
_LABEL = pa.field("label", pa.large_string(), nullable=False)
_GOLD = pa.struct([*_BOUNDS, _LABEL])
_PREDICTED = pa.struct([*_BOUNDS, _LABEL, pa.field("score", pa.float32(), nullable=False)])

EVALUATED = Table.define(
    "evaluated",
    1,
    ("document_id", pa.large_string(), "document of the sentence"),
    ("sentence_id", pa.int32(), "number of the sentence in its document"),
    ("words", pa.large_list(pa.field("item", pa.large_string(), nullable=False)), "words of the sentence"),
    (
        "gold",
        pa.list_(pa.field("item", _GOLD, nullable=False)),
        "annotated entities by start, end and label; half-open ranges of words",
    ),
    (
        "predicted",
        pa.list_(pa.field("item", _PREDICTED, nullable=False)),
        "entities predicted by the model, in the same order, each with its score, 0 to 1",
    ),
)
