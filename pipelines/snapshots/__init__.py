"""Commits the finished Parquet files of an output as snapshots of Delta or Iceberg tables.

Each table of the output becomes a table of the format. Files are neither rewritten nor moved: a snapshot names those
that the manifest names, with the statistics in their footers. `delta` and `iceberg` are loaded when they are used,
because their libraries are extras.
"""
