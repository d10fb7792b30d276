"""A result file as tables."""

from benchmarks.contestants import EXACT, FLOOR, PEER
from benchmarks.table import markdown


def entry(seconds, macs, floor):
    return {
        "seconds": seconds,
        "settings": {},
        "scores": {"f1": 0.5},
        "floor": floor,
        "versions": {"torch": "2", "span_marker": "1.8.1"} if macs == 800 else {"torch": "2"},
        "predicted": {"macs": macs, "spans": 10, "kept": 1.0, "useful": 0.5},
    }


def point(value, seconds, macs):
    return {
        "axis": "entity_max_length",
        "value": value,
        "name": EXACT,
        "words": 10,
        "seconds": [seconds],
        "predicted": {"macs": macs},
    }


def test_tables_hold_ratios_of_rounds_and_predictions():
    text = markdown(
        {
            "machine": {"date": "2026-01-01", "cpu": "c", "cores": 2, "python": "3", "commit": "a"}
            | {"changed_since_commit": False},
            "options": {"threads": 2, "dtype": "float32", "rounds": 2},
            "model": {"layers": 6, "width": 384, "labels": 4, "entity_max_length": 8},
            "workloads": [
                {
                    "name": "short",
                    "sentences": 12,
                    "words": 1000,
                    "left_out": 1,
                    "max_tokens": 256,
                    "agreement": {"entities": 3, "largest_difference": 2e-7},
                    "entries": {
                        PEER: entry([8.0, 16.0], 800, FLOOR),
                        EXACT: entry([2.0, 8.0], 200, FLOOR),
                        FLOOR: entry([1.0, 2.0], 100, None),
                    },
                }
            ],
            "growth": [point(4, 1e-3, 1e7), point(8, 3e-3, 2e7)],
            "end_to_end": [
                {
                    "name": EXACT,
                    "corpus": "pages",
                    "counts": {"documents": 3, "words": 4000},
                    "seconds": 9.0,
                    "run_seconds": 8.0,
                    "model_seconds": 6.0,
                    "outside": 0.25,
                    "worker_peak_rss_bytes": 5e8,
                }
            ],
        }
    )
    ours = next(line for line in text.splitlines() if line.startswith(f"| {EXACT} | 5"))
    assert "| 3.00× (2.00× to 4.00×) | 3.00× (2.00× to 4.00×) | 4.0× | 100% | 50% | 50.0% |" in ours
    assert "| 8 | 300 | 3.00× | 2.00× | 2.0 | 7 |" in text
    assert f"| {EXACT} | pages | 3 | 4,000 | 9.0 | 8.0 | 6.0 | 25.0% | 500 |" in text
    assert "windows of 256 tokens; 1 sentences of the source" in text
