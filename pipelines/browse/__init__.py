"""`spanmarker browse`: a page to look around in what `spanmarker tag` wrote.

    catalogue   which shards are done, as the manifest says
    wanted      which rows are asked for
    queries     rows of their tables, by DuckDB, in bounded time and memory
    sources     the texts of documents, read back from where they came from
    named       which of these places may be read
    parts       a document's text in parts, with its entities
    document    what the page of a document shows
    views       what the other pages show
    asked       what an address asks for
    clients     how long connections may wait for their clients
    server      HTTP on this machine only, reading only

Nothing is written to the output folder.
"""
