"""`spanmarker browse`: local web pages for exploring the output of `spanmarker tag`.

    catalogue   the finished shards, from the manifest
    wanted      the rows that a query selects
    queries     rows of the tables, read by DuckDB in bounded time and memory
    sources     texts of documents, read from their sources
    named       the sources that may be read
    parts       the text of a document in parts, with its entities
    document    the page of a document
    views       the other pages
    asked       parsing and validation of the query string
    problems    errors shown as pages
    clients     time limits of connections
    server      the HTTP server, local and read-only

Nothing is written to the output folder.
"""
