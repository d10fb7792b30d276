"""Languages that `--language auto` detects: the share of right ones, and the seconds beside those of tagging.

    python -m benchmarks.languages CORPUS.jsonl

The id of each document holds its language as its second part, as in "xquad-de-07".
All documents are prepared, which shows their languages; the first of each language are tagged, which shows the seconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from spanmarker_core.text.detection import detect_language
from spanmarker_core.text.languages import normalise_language
from spanmarker_core.text.markdown import table

#: Lengths of texts in characters, beside the whole ones.
LENGTHS = (300, 60)
STAGES = ("languages", "split", "encode", "tag")


def main() -> None:
    """Run the commands and print the table and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tagged", type=int, default=2, help="documents of each language to tag; 0 tags none")
    arguments = parser.parse_args()
    lines = [line for line in arguments.corpus.read_text(encoding="utf-8").split("\n") if line]
    texts = {each["id"]: each["text"] for each in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as folder:
        _spanmarker("prepare", arguments.corpus, Path(folder) / "prepared")
        files = ds.dataset(Path(folder) / "prepared" / "inputs", format="ipc")
        print("\n".join(languages_table(files.to_table(["document_id", "language"]), texts)))
        if not arguments.tagged:
            return
        first = [line for line in lines if int(json.loads(line)["id"].split("-")[2]) < arguments.tagged]
        (Path(folder) / "first.jsonl").write_text("\n".join(first), encoding="utf-8")
        _spanmarker("tag", Path(folder) / "first.jsonl", Path(folder) / "tagged")
        output = json.loads((Path(folder) / "tagged" / "report.json").read_text(encoding="utf-8"))["output"]
    seconds = output["seconds_by_stage"]
    stages = ", ".join(f"{stage} {seconds[stage]:.2f} s" for stage in STAGES)
    share = seconds["languages"] / seconds["tag"]
    print(f"\n{output['counts']['words']:,} words: {stages}. Detection takes {share:.2%} of the time of tagging.")


def _spanmarker(command: str, corpus: Path, output: Path) -> None:
    start = [sys.executable, "-c", "from pipelines.cli import main; main()", command, "--language", "auto"]
    subprocess.run([*start, "--input", str(corpus), "--output", str(output)], check=True, stdout=subprocess.DEVNULL)


def languages_table(found: pa.Table, texts: dict[str, str]) -> list[str]:
    """Return the lines of a table of the documents and of the right languages, whole and by their beginnings.

    Args:
        found: `document_id` and `language`.
        texts: text by document.
    """
    documents: Counter[str] = Counter()
    right: Counter[tuple[str, int]] = Counter()
    for row in found.to_pylist():
        language = normalise_language(row["document_id"].split("-")[1])
        documents[language] += 1
        right[language, 0] += row["language"] == language
        for length in LENGTHS:
            right[language, length] += detect_language(texts[row["document_id"]][:length]) == language
    heads = ("language", "documents", "right", *(f"right, first {length} characters" for length in LENGTHS))
    sizes = (0, *LENGTHS)
    lines = [(code, n, *(f"{right[code, size] / n:.1%}" for size in sizes)) for code, n in sorted(documents.items())]
    total = documents.total()
    shares = (f"{sum(right[code, size] for code in documents) / total:.1%}" for size in sizes)
    return table(heads, [*lines, ("all", total, *shares)])


if __name__ == "__main__":
    main()
