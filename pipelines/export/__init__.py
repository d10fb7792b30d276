"""`spanmarker export`: the entities of a finished output, with their texts, in the formats of other tools.

    export       the driver
    output       the output that is exported: its shards, labels and documents
    documents    the documents of a shard: texts from the source, joined with the rows
    words        the sentences and words that the run tagged
    destination  the files that are written

Nothing is written to the output folder. `spanmarker_core.formats` has the formats.
"""
