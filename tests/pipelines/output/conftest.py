import pytest

from pipelines.output import compaction, manifest, manifest_table


@pytest.fixture
def small(monkeypatch):
    """Tables and pages of few entries."""
    monkeypatch.setattr(compaction, "COMPACT_AT", 2)
    monkeypatch.setattr(manifest, "_READ_AT_ONCE", 3)
    monkeypatch.setattr(manifest_table, "GROUP_ROWS", 4)
