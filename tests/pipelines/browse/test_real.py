"""Looking around in what `spanmarker tag` really wrote, from every kind of input."""

import gzip

import pyarrow.parquet as pq
import zstandard

from pipelines.texts.sources import agrees
from tests.pipelines.browse.conftest import site
from tests.pipelines.browse.test_views import look
from tests.support.jobs import documents, tag, write_jsonl, write_parquet


def test_every_entity_of_a_run_is_shown_in_its_text(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in" / "a.jsonl", [*documents(5, "plain"), b"broken", {"id": None, "text": "x"}])
    write_parquet(tmp_path / "in" / "b.parquet", documents(6, "table"), row_group_size=2)
    plain = write_jsonl(tmp_path / "plain", documents(5, "gz")).read_bytes()
    (tmp_path / "in" / "c.jsonl.gz").write_bytes(gzip.compress(plain))
    plain = write_jsonl(tmp_path / "plain", documents(5, "zst")).read_bytes()
    (tmp_path / "in" / "d.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(plain))
    (tmp_path / "in" / "e.txt").write_text("Barack Obama was in Paris.")
    tag([tmp_path / "in" / "*"], tmp_path / "out", tiny_bundle, threshold=0.0, max_shard_bytes=400)
    rows = pq.read_table(tmp_path / "out" / "documents").to_pylist()
    with site(tmp_path / "out") as pages:
        catalogue = pages.live.now()
        assert catalogue.count("documents") == len(rows) == 5 + 2 + 6 + 5 + 5 + 1
        shown = 0
        for name in catalogue.names:
            for row in range(int(catalogue.rows["documents"][catalogue.number_of(name)])):
                page = look(pages, f"/document?shard={name}&row={row}")
                assert "is not shown" not in page.words
                shown += 1
        assert shown == len(rows)
        with pages.database.session() as queries:
            for row in rows:
                if row["status"] != "tagged":
                    continue
                (shard,) = [n for n in catalogue.names if _has(tmp_path / "out", n, row["document_id"])]
                text = pages.sources.texts([row | {"shard": shard}], 60)[0].text
                surfaces = list(queries.surfaces(shard, row["document_id"]))
                assert len(surfaces) == row["n_entities"]
                assert agrees(text, surfaces)
        assert "broken_json" in look(pages, "/rejects").words
        assert "null_id" in look(pages, "/rejects").words
        page = look(pages, "/mentions?sort=score-down")
        assert "Its sentence is not shown" not in page.words
        assert len(page.to("/document")) == 25


def _has(output, shard, document_id):
    return document_id in pq.read_table(output / "documents" / f"{shard}.parquet")["document_id"].to_pylist()
