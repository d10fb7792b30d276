"""The Dask engine: its driver, and the functions that run in Dask workers."""
