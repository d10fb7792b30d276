"""Tags files into Parquet with `spanmarker tag`, and reads the numbers of its report.

Run it twice: the second run finds that every shard is done and tags nothing. Prints the documents that went in and
where they ended up, the most frequent labels with their most frequent entities, and the name of the page to open.

    python examples/tag_a_folder.py [OUTPUT]
"""

import json
import subprocess
import sys
from pathlib import Path

OUTPUT = Path(sys.argv[1] if len(sys.argv) > 1 else "out/examples")


def main() -> None:
    """Tag the first documents of the sample corpus and print the report's numbers."""
    command = [sys.executable, "-m", "pipelines.cli", "tag"]  # `spanmarker tag` of this interpreter
    command += ["--input", "infra/demo/wikipedia.parquet", "--input", "infra/demo/speeches.jsonl"]
    command += ["--output", str(OUTPUT), "--limit", "7", "--quiet"]
    subprocess.run(command, check=True)

    report = json.loads((OUTPUT / "report.json").read_text(encoding="utf-8"))
    run, output = report["this_run"], report["output"]
    counts = output["counts"]
    # A run without anything to do leaves the report as it is.
    print(f"The last run that tagged anything tagged {run['shards_run']} shards ({run['words_per_second']:,} words/s).")
    print(
        f"{counts['documents']} documents = {counts['tagged']} tagged + {counts['empty']} empty + "
        f"{counts['rejected']} rejected; {counts['words']:,} words, {counts['entities']} entities"
    )
    for label in output["found"]["labels"][:5]:
        most = ", ".join(f"{text['text']} ({text['count']})" for text in label["top"][:3])
        print(f"  {label['rows']:>3} {label['label']:<30} {most}")
    print(f"Open {OUTPUT / 'report.html'} in a web browser, or run: spanmarker browse {OUTPUT} --sources infra/demo")


if __name__ == "__main__":
    main()
