"""Every table and record that is stored: its Arrow schema, its version, each column's meaning and unit.

Ranges are half-open. Character offsets count Unicode code points of the document's text as it
came in; word offsets count the words of one sentence. A changed column is a new version.
"""

from schemas.annotated import ANNOTATED_SAMPLES, GOLD_PROBLEMS
from schemas.annotations import ANNOTATIONS
from schemas.documents import DOCUMENTS
from schemas.evaluated import EVALUATED
from schemas.prepared import PREPARED
from schemas.rejects import REJECTS
from schemas.samples import SAMPLES
from schemas.sentences import SENTENCES
from schemas.tables import Table

__all__ = [
    "ANNOTATED_SAMPLES",
    "ANNOTATIONS",
    "DOCUMENTS",
    "EVALUATED",
    "GOLD_PROBLEMS",
    "PREPARED",
    "REJECTS",
    "SAMPLES",
    "SENTENCES",
    "Table",
]
