"""Reads the texts of documents back from their sources, because outputs contain none.

    named     the sources that may be read
    sources   texts of documents, by the rows of `documents`
    sentence  the sentence around an entity

Nothing here knows pages or reports.
"""
