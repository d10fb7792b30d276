"""Languages: documents -> documents with the languages that their sentences are split by."""

import pyarrow as pa

from spanmarker_core.text.detection import detect_language
from spanmarker_core.text.languages import known_language

#: Instead of a language: detect that of each document.
AUTO = "auto"
#: The language of a text in which none can be detected.
DEFAULT = "en"


def with_languages(documents: pa.RecordBatch, language: str) -> pa.RecordBatch:
    """Return documents with their languages: the stated one if it is known, otherwise that of the job.

    Args:
        documents: INPUTS rows, with languages as the records state them.
        language: language of the other documents, or "auto" to detect it.

    Returns:
        INPUTS rows; `language` and `language_from` as in DOCUMENTS.

    Raises:
        CoreError: `language.no_detector`.
    """
    stated = documents["language"].to_pylist()
    found = []
    for place, value in enumerate(stated):
        if (known := known_language(value)) is not None:
            found.append((known, "column"))
        elif language != AUTO:
            found.append((language, "option"))
        elif (detected := detect_language(documents["text"][place].as_py())) is not None:
            found.append((detected, "detected"))
        else:
            found.append((DEFAULT, "default"))
    columns = dict(zip(documents.schema.names, documents.columns, strict=True))
    columns["language"] = pa.array([code for code, _ in found], pa.string())
    columns["language_from"] = pa.array([origin for _, origin in found], pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=documents.schema)
