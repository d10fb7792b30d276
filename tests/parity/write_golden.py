"""Write the golden files to ./golden. `make_golden.py` runs this, in the library's own environment.

The working directory is a scratch one: encoders are saved there under bare names, which end up in the
checkpoints.
"""

import json
import statistics
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from golden_checkpoints import FAMILIES, save_checkpoint
from golden_faults import faults
from golden_inputs import cases
from golden_outputs import check, record

EXPECTED = "1.8.1"
MADE_WITH = ("span_marker", "transformers", "tokenizers", "torch")


def main() -> None:
    if version("span_marker") != EXPECTED:
        sys.exit(f"golden files are made by span_marker {EXPECTED}, not {version('span_marker')}")
    golden = Path("golden")
    models = {}
    for family in FAMILIES:
        models[family] = save_checkpoint(family, golden / family)
        write_outputs(family, models[family], golden / family / "golden.json")
    write_lines(golden / "faults.json", {"made_with": made_with(), "faults": faults(models)}, "faults")
    refuse_machine_paths(golden, [Path.cwd(), Path(sys.prefix), Path(__file__).parent, Path.home()])


def write_outputs(family: str, model, path: Path) -> None:
    config, tokenizer = model.config, model.tokenizer
    labels = [config.id2label[index] for index in range(len(config.id2label))]
    found, label_counts, scores, gaps = [], Counter(), [], []
    for case in cases():
        found.append(record(model, case))
        figures = check(found[-1], labels, config.outside_id)
        label_counts.update(figures["labels"])
        scores += figures["scores"]
        gaps.append(figures["gap"])
    facts = {
        "family": family,
        "made_with": made_with(),
        "labels": labels,
        "outside_id": config.outside_id,
        "model_max_length": tokenizer.model_max_length,
        "marker_max_length": config.marker_max_length,
        "entity_max_length": config.entity_max_length,
        "start_marker_id": tokenizer.start_marker_id,
        "end_marker_id": tokenizer.end_marker_id,
    }
    write_lines(path, {**facts, "cases": found}, "cases")
    spans = sum(len(sentence["spans"]) for case in found for sentence in case["sentences"])
    quartiles = ", ".join(f"{score:.2f}" for score in statistics.quantiles(scores))
    print(
        f"{family}: {len(found)} cases, {spans} spans, {len(scores)} entities {dict(label_counts)}, scores "
        f"{min(scores):.2f} to {max(scores):.2f} (quartiles {quartiles}), closest two {min(gaps):.1e}"
    )


def made_with() -> dict[str, str]:
    # Without the build's "+cpu", so that a wheel from elsewhere gives the same file.
    return {name: version(name).split("+")[0] for name in MADE_WITH}


def write_lines(path: Path, content: dict, list_name: str) -> None:
    """JSON with one line for each sentence or fault, so that a change shows as the lines it changes."""

    def dump(value) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    lines = ["{"]
    lines += [f"{dump(key)}:{dump(value)}," for key, value in content.items() if key != list_name]
    lines.append(f"{dump(list_name)}:[")
    items = []
    for item in content[list_name]:
        sentences = item.get("sentences")
        if sentences is None:
            items.append(dump(item))
            continue
        head = dump({key: value for key, value in item.items() if key != "sentences"})[:-1]
        inner = ",\n".join(dump(sentence) for sentence in sentences)
        items.append(f'{head},"sentences":[\n{inner}\n]}}')
    lines.append(",\n".join(items))
    lines.append("]}\n")
    path.write_text("\n".join(lines), encoding="utf-8")


def refuse_machine_paths(folder: Path, paths: list[Path]) -> None:
    """No file may tell where it was made. Weights are stored uncompressed, so searching bytes will do."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            content = file.read_bytes()
            for path in paths:
                assert bytes(path) not in content, f"{file} holds {path}"


if __name__ == "__main__":
    main()
