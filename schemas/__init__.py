"""Schemas of all stored tables and records: the Arrow schema and version, and the meaning and unit of each column.

Ranges are half-open. Character offsets count Unicode code points of the document's text exactly as it was read; word
offsets count the words of one sentence. Changing a column requires a new version.
"""

from schemas.annotated import ANNOTATED_SAMPLES, GOLD_PROBLEMS
from schemas.annotations import ANNOTATIONS, ENTITIES
from schemas.documents import DOCUMENTS
from schemas.evaluated import EVALUATED
from schemas.prepared import PREPARED
from schemas.rejects import REJECTS
from schemas.samples import SAMPLES
from schemas.sentences import SENTENCE_OFFSETS, SENTENCE_TEXTS, SENTENCES
from schemas.tables import Table

__all__ = [
    "ANNOTATED_SAMPLES",
    "ANNOTATIONS",
    "DOCUMENTS",
    "ENTITIES",
    "EVALUATED",
    "GOLD_PROBLEMS",
    "PREPARED",
    "REJECTS",
    "SAMPLES",
    "SENTENCES",
    "SENTENCE_OFFSETS",
    "SENTENCE_TEXTS",
    "Table",
]
