"""Densities of sources: sums by hand, the alarm, and a multitude of sources."""

import json
import tracemalloc

import pytest

from pipelines.report import sources
from pipelines.report.sources import SourceCounts, dev_density_of
from spanmarker_core.card import read_card_facts, rewrite_card
from spanmarker_core.evaluation.density import DevDensity
from tests.support.outputs import a_shard, an_entry
from tests.support.tiny import tiny_bundle

DEV = DevDensity(60_000, 3_000, 60, 1.2, False, "flat.v1", "None", "off")
IDENTITY = {"decoder": "flat.v1", "threshold": "None", "gate": "off"}


def shard_of(source, words, entities, rejected=0, documents=10):
    entry = an_entry(a_shard(source))
    entry.counts.update(words=words, entities=entities, rejected=rejected, documents=documents)
    return entry


def described(entries, dev=DEV, **options):
    counts = SourceCounts()
    for entry in entries:
        counts.add(entry)
    return counts.described(dev, lambda: (entry.source for entry in entries), **options)


def test_shards_of_a_source_add_up():
    found = described(
        [
            shard_of("/in/a.parquet", 1000, 50, rejected=2),
            shard_of("/in/b.parquet", 4000, 240),
            shard_of("/in/a.parquet", 3000, 100, rejected=1),
            shard_of("/in/none.parquet", 0, 0, rejected=10),
        ]
    )
    assert {row["source"]: row for row in found["shown"]}["/in/a.parquet"] | {"lowest": 0, "highest": 0} == {
        "source": "/in/a.parquet",
        "documents": 20,
        "rejected": 3,
        "words": 4000,
        "entities": 150,
        "per_1000_words": 37.5,
        "lowest": 0,
        "highest": 0,
        "alarm": None,
    }
    assert (found["sources"], found["without_words"]) == (3, 1)
    assert found["per_1000_words"] == round(390 / 8, 2)
    assert found["dev"]["per_1000_words"] == 50


def test_a_source_far_from_the_dev_data_alarms_and_comes_first():
    usual = [shard_of(f"/in/{number}.parquet", 10_000, 480 + number) for number in range(30)]
    planted = [shard_of("/in/other-language.parquet", 9_000, 3), shard_of("/in/lists.parquet", 5_000, 900)]
    found = described(usual[:15] + planted + usual[15:], shown=10)
    assert [(row["source"], row["alarm"]) for row in found["shown"][:3]] == [
        ("/in/other-language.parquet", "too few entities"),
        ("/in/lists.parquet", "too many entities"),
        ("/in/0.parquet", None),
    ]
    assert (found["too_few"], found["too_many"]) == (1, 1)
    for row in found["shown"][:2]:
        assert not row["lowest"] <= row["per_1000_words"] <= row["highest"]
    assert len(found["shown"]) == 10


def test_that_a_few_words_have_no_entity_is_no_alarm():
    found = described([shard_of("/in/few.jsonl", 4, 0), shard_of("/in/usual.jsonl", 10_000, 500)])
    assert [row["lowest"] for row in found["shown"] if row["source"] == "/in/few.jsonl"] == [0.0]
    assert (found["too_few"], found["too_many"]) == (0, 0)


def test_without_a_band_nothing_alarms_and_the_strangest_still_comes_first():
    entries = [*(shard_of(f"/in/{number}", 10_000, 480) for number in range(30)), shard_of("/in/x", 9_000, 3)]
    found = described(entries, "nobody knows")
    assert found["shown"][0]["source"] == "/in/x"
    assert {row["alarm"] for row in found["shown"]} == {None}
    assert (found["dev"], found["no_band"]) == (None, "nobody knows")
    assert (found["too_few"], found["too_many"]) == (0, 0)


def test_nothing_at_all():
    found = described([])
    assert (found["sources"], found["shown"], found["per_1000_words"]) == (0, [], None)
    assert described([shard_of("/in/a", 0, 0)])["without_words"] == 1
    assert described([shard_of("/in/a", 900, 0)], "none")["shown"][0]["entities"] == 0


def test_order_and_pages_change_nothing(monkeypatch):
    entries = [shard_of(f"/in/{number % 7}", 1000 + number, 40) for number in range(50)]
    whole = described(entries)
    assert described(entries[::-1]) == whole
    monkeypatch.setattr(sources, "_HELD", 3)
    assert described(entries) == whole


@pytest.mark.slow
def test_a_multitude_of_sources_is_counted():
    """Of 50,000 sources a few are told, and memory holds some forty bytes of each."""
    entry = shard_of("", 1000, 50)

    def entries():
        for number in range(50_000):
            object.__setattr__(entry, "source", f"/corpus/folder-{number:06}/")
            entry.counts["entities"] = 50 if number != 777 else 0
            yield entry

    tracemalloc.start()
    counts = SourceCounts()
    for each in entries():
        counts.add(each)
    found = counts.described(DEV, lambda: (each.source for each in entries()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found["sources"], len(found["shown"])) == (50_000, sources.MAX_SOURCES)
    assert [row["source"] for row in found["shown"] if row["alarm"]] == ["/corpus/folder-000777/"]
    assert peak < 50_000 * 400


def test_names_without_utf8_are_found_again():
    assert described([shard_of("/in/\udcff", 1000, 40)])["shown"][0]["source"] == "/in/\udcff"


@pytest.fixture
def bundle(tmp_path):
    path = tiny_bundle(tmp_path / "bundle")
    rewrite_card(path, {"density": DEV.to_json()})
    return path


def test_what_a_bundle_says_is_held_against_the_run(bundle):
    assert dev_density_of(str(bundle), IDENTITY) == DEV
    for name in IDENTITY:
        why = dev_density_of(str(bundle), {**IDENTITY, name: "other"})
        assert f"{name} {IDENTITY[name]}, " in why
        assert why.endswith(" other")


def test_a_bundle_that_does_not_say_has_no_band(bundle):
    rewrite_card(bundle, {"density": None, "name": "x"})
    assert "spanmarker card" in dev_density_of(str(bundle), IDENTITY)
    rewrite_card(bundle, {"density": {"words": "many"}})
    assert read_card_facts(bundle)["density"] == {"words": "many"}
    assert "spanmarker card" in dev_density_of(str(bundle), IDENTITY)
    (bundle / "card.json").write_text("{")
    assert "cannot read" in dev_density_of(str(bundle), IDENTITY)
    assert "spanmarker card" in dev_density_of("/nowhere", IDENTITY)
    assert json.dumps(described([shard_of("/a", 10, 1)], dev_density_of("/nowhere", IDENTITY)))
