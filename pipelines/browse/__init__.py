"""`spanmarker browse`: local web pages for exploring the output of `spanmarker tag`.

    catalogue   the finished shards, from the manifest
    query       which rows to select
    database    rows of the tables, read by DuckDB in bounded time and memory
    sources     texts of documents, read from their sources
    named       the sources that may be read
    parts       the text of a document in parts, with its entities
    document    the page of a document
    views       the other pages
    request     parsing and validation of the query string
    error_pages errors shown as pages
    connection  time limits of connections
    server      the HTTP server, local and read-only, on Starlette and uvicorn

Nothing is written to the output folder.
"""
