"""`spanmarker browse`: local web pages for exploring the output of `spanmarker tag`.

    catalogue   the finished shards, from the manifest
    query       which rows to select
    queries     rows of the tables, one page at a time
    database    connections of DuckDB, in bounded time and memory
    groups      entities grouped by their text
    listing     a page of rows, and the links to the others
    download    all selected rows as a file
    parts       the text of a document in parts, with its entities
    document    the page of a document
    views       the other pages
    request     parsing and validation of the query string
    error_pages errors shown as pages
    connection  time limits of connections
    server      the HTTP server, local and read-only, on Starlette and uvicorn

Texts come from `pipelines.texts`. Nothing is written to the output folder.
"""
