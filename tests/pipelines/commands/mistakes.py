"""Mistakes that users make, and what the commands answer: `mistakes.txt` beside this file, to be read as one text.

Write the file again after a change to a message or a check, and read its difference:

    python -m tests.pipelines.commands.mistakes
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from pipelines.engines import ENGINES
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreWarning
from tests.support.jobs import documents, prepare, spanmarker, tag, write_jsonl, write_parquet
from tests.support.tiny import tiny_bundle

SNAPSHOT = Path(__file__).with_name("mistakes.txt")

SENTENCES = [
    {
        "document_id": "d",
        "sentence_id": number,
        "tokens": ["Ada", "Lovelace", "met", "Obama"],
        "entities": [{"start": 0, "end": 2, "label": "person"}],
    }
    for number in range(2)
]
JOBS = {
    "broken.toml": 'input = ["lake"]\noutput = out/\n',
    "unfinished.toml": 'input = ["lake"\noutput = "out"\n',
    "typo.toml": 'input = ["lake"]\noutput = "out"\n\ntext_colum = "body"\n',
    "dashes.toml": 'input = ["lake"]\noutput = "out"\ntext-column = "body"\n',
    "types.toml": 'input = 3\noutput = "out"\nworkers = "many"\nprune = "perhaps"\nmodel = false\n',
    "range.toml": 'input = ["lake"]\noutput = "out"\nthreshold = 50\nworkers = 0\n',
    "labels.toml": 'input = ["lake"]\noutput = "out"\nthreshold = { person = 1.5 }\nlabels = ["person", "persom"]\n',
    "table.toml": 'output = "out"\n\n[inputs]\npath = "lake"\n',
    "resources.toml": 'input = ["lake"]\noutput = "out"\nengine = "dask"\n[resources]\nGPU = "one"\n',
    "training.toml": 'train = "train.jsonl"\ndev = "train.jsonl"\nencoder = "encoder"\nout = "new"\nepoch = 3\n',
    "empty.toml": "",
    "experiment.toml": (
        'output = "runs"\nencoder = "encoder"\nseeds = [1, 1]\n[datasets.news]\nscheme = "IOB2"\n'
        "[configurations.gated]\nsettings = { gate = true, epochs = 0 }\n"
        '[configurations.other]\ncommand = "run.py --train {train} --out {outptu}"\n'
    ),
    "compare.toml": (
        'output = "runs"\nencoder = "encoder"\nseeds = [1]\ncompare = [["gated", "plain"]]\n[datasets.news]\n'
        "[configurations.gated]\nsettings = { gat = true, seed = 3 }\n"
    ),
}

MISTAKES = {
    "Commands and options": """
        tga
        tag --inptu lake
        tag lake --output out --worker 4
        tag lake --output
        tag lake --output out --workers two
        tag lake --output out --workers 1.5
        tag lake --output out --threads -1
        tag lake --output out -x
        evaluate --model model --data train.jsonl --threshold 50
        evaluate --data train.jsonl
        export done
        export done --to jsonl
        export done --to jsonl --destination new --min-score 90
        status
        status done out
        browse done --port http
        browse done --port 99999
        gate fti
        compare report
        import-checkpoint checkpoint
        experiment
        convert train.jsonl --output train.conll
        representations --model model --data train.jsonl --spans none
        card
    """,
    "What to tag, and where to": """
        tag
        tag lake
        tag --output out
        tag lake --output ''
        tag lake --samples samples --output out
        tag --samples lake --output out
        tag --samples done --output out
        tag --samples samples --limit 3 --output out
        tag lake other words --output out
        tag lake --output out -- --runner=FlinkRunner
        tag lkae --output out
        tag --input lkae/a.jsonl --output out
        tag --input 'lake/*.json' --output out
        tag --input '**.jsonl' --output out
        tag --input empty --output out
        tag --input notes.docx --output out
        tag --input notes.docx --format docx --output out
        tag --input others.parquet --output out
        tag --input others.jsonl --output out
        tag --input lake --id-column text --output out
        tag --input lake --keep-columns colour --output out
        tag --input lake --keep-columns title,,url --output out
        tag --input lake --keep-columns-in annotations --output out
        tag --input store://bucket/docs --output out
        tag --input s3://bucket/docs/a.jsonl --output out
        tag --input lake --output s3:/bucket/out --storage-option anon
        tag --input lake --output notes.docx
        tag --input lake --output notes.docx/out
        tag --input lake --output lake
        tag --input lake --output foreign
        tag --input lake --output done --threshold 0.9
        tag --input lake --output done --labels person --limit 2
        tag --input done/plan.jsonl --output done
        tag --input lake --output out --metrics notes.docx
        tag --input lake --output out --metrics-push gateway:9091
        tag --input lake --output out --log-json lake/a.jsonl
    """,
    "How to tag": """
        tag lake --output out --model nowhere
        tag lake --output out --model encoder
        tag lake --output out --model checkpoint
        tag lake --output out --model damaged
        tag lake --output out --model lake
        tag lake --output out --decoder flt
        tag lake --output out --threshold 50
        tag lake --output out --threshold high
        tag lake --output out --threshold person=1.5
        tag lake --output out --threshold PERSON=0.5
        tag lake --output out --threshold 0.5 --threshold 0.6
        tag lake --output out --threshold =0.5
        tag lake --output out --labels persom,work
        tag lake --output out --labels person,,work
        tag lake --output out --limit 0
        tag lake --output out --limit all
        tag lake --output out --gate of
        tag lake --output out --gate on
        tag lake --output out --device gpu
        tag lake --output out --device cuda:one
        tag lake --output out --dtype fp16
        tag lake --output out --language klingon
        tag lake --output out --max-rejects few
        tag lake --output out --max-rejects 120%
        tag lake --output out --shard-timeout -1
        tag lake --output out --worker-memory lots
        tag lake --output out --engine spark
        tag lake --output out --scheduler tcp://host:8786
        tag lake --output out --engine dask --resources GPU
        tag lake --output out --engine dask --scheduler tcp://host:8786 --workers 4
        tag lake --output out --commit hudi
        tag lake --output out --write-sentences yes
        tag lake --output out --sentence-breaks line
        tag --text 'Ada met Obama.' --output out --workers 2
        tag --text 'Ada met Obama.' --labels person,place
        tag --text 'Ada met Obama.' --model nowhere
        tag lake --dry-run
        tag --input - --output out --dry-run
        tag lake --output out --dry-run --id-column nowhere --text-column body
    """,
    "Job files": """
        tag --job nowhere.toml
        tag --job lake
        tag --job latin.toml
        tag --job broken.toml
        tag --job unfinished.toml
        tag --job typo.toml
        tag --job dashes.toml
        tag --job types.toml
        tag --job range.toml
        tag --job range.toml --threshold 0.5 --workers 0
        tag --job labels.toml
        tag --job table.toml
        tag --job resources.toml
        tag --job empty.toml
        prepare --job typo.toml
        train --job training.toml
        gate fit --job empty.toml
        experiment nowhere.toml
        experiment empty.toml
        experiment experiment.toml
        experiment compare.toml
    """,
    "Preparing, training and scoring": """
        prepare lake
        prepare --annotated --input train.jsonl --output out
        prepare --annotated --input train.conll --encoder encoder --output out
        train
        train --train train.jsnl --dev train.jsonl --encoder encoder --output new
        train --train train.conll --dev train.conll --encoder encoder --output new
        train --train train.conll --dev train.conll --scheme BIOES --encoder encoder --output new
        train --train train.conll --dev train.conll --scheme BOI --encoder encoder --output new
        train --train train.jsonl --dev train.jsonl --encoder nowhere --output new
        train --train train.jsonl --dev train.jsonl --encoder encoder --output lake
        train --train notes.docx --dev train.jsonl --encoder encoder --output new
        train --train bad.jsonl --dev train.jsonl --encoder encoder --output new
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --epochs 0 --context page
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --gate-weight 0.3 --negatives 0
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --batch-size 8 --batch-tokens 512
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --architecture spanmarker
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --option lstm
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --option lstm=2
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --max-tokens 4
        train --train train.jsonl --dev train.jsonl --encoder encoder --output new --learning-rate fast
        evaluate --model nowhere --data train.jsonl
        evaluate --model model --data train.jsnol
        evaluate --model model --data train.conll
        evaluate --model model --data labels.jsonl
        evaluate --model model --data notes.docx
        evaluate --model model --data bad.jsonl
        evaluate --model model --data train.jsonl --train train.jsonl
        evaluate --model model --data train.jsonl --report notes.docx
        evaluate --model model --data train.jsonl --decoder flt
        evaluate --model model --data train.jsonl --dtype fp16
        evaluate --model model --data train.jsonl --gate maybe
        evaluate --model model --data train.jsonl --device gpu
        representations --model model --data nowhere.jsonl
        gate fit --model model --corpus lake
        gate fit --model model --corpus lake --output new --target-recall 99.5
        gate fit --model model --corpus lake --output new --scheme IOB2
        gate fit --model nowhere --corpus lake --output new
        compare lake done
        compare first second
        card lake --name News
        card model --train nowhere.jsonl
        import-checkpoint nowhere new
        import-checkpoint lake new
    """,
    "Using an output": """
        status lake
        status nowhere
        browse lake --no-open
        browse s3://bucket/out --no-open
        export lake --to jsonl --destination new
        export done --to docx --destination new
        export done --to jsonl --destination done
        export done --to jsonl --destination new --label persom
        export done --to jsonl --destination new --document nobody
        export done --to jsonl --destination new --document-file nowhere.txt
        export done --to conll --destination new --scheme BOI
        export done --to conll --destination new --flatten both
        convert train.jsnol --to conll --output new.conll
        convert train.jsonl --to docx --output new.docx
        convert train.jsonl --to conll --output new.conll --to-scheme BOI
        convert train.conll --to jsonl --output new.jsonl
        convert notes.docx --to jsonl --output new.jsonl
        convert train.jsonl --to jsonl --output train.jsonl
    """,
}


def make_files(folder: Path) -> None:
    """Write the files that the commands name into a folder."""
    for name in "ab":
        write_jsonl(folder / "lake" / f"{name}.jsonl", documents(4, name))
    write_parquet(folder / "others.parquet", [{"key": "1", "body": "Obama", "Text": 3}])
    write_jsonl(folder / "others.jsonl", [{"key": "1", "body": "Obama"}])
    write_jsonl(folder / "train.jsonl", SENTENCES)
    write_jsonl(folder / "labels.jsonl", [SENTENCES[0] | {"entities": [{"start": 0, "end": 1, "label": "PER"}]}])
    write_jsonl(folder / "renamed.jsonl", [each | {"document_id": "e"} for each in SENTENCES])
    beyond = [{"start": 0, "end": 9, "label": "person"}]
    write_jsonl(folder / "bad.jsonl", [SENTENCES[0], SENTENCES[1] | {"entities": beyond}])
    (folder / "train.conll").write_text("Ada\tB-person\nLovelace\tI-person\nmet\tO\n\n")
    (folder / "notes.docx").write_text("PK")
    (folder / "latin.toml").write_bytes('input = ["Müller"]'.encode("latin-1"))
    for name in ("empty", "foreign/manifest", "encoder", "checkpoint"):
        (folder / name).mkdir(parents=True)
    (folder / "foreign" / "manifest" / "notes.txt").touch()
    (folder / "encoder" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (folder / "checkpoint" / "config.json").write_text(json.dumps({"model_type": "span-marker"}))
    for name, text in JOBS.items():
        (folder / name).write_text(text)
    tiny_bundle(folder / "model")
    shutil.copytree(folder / "model", folder / "damaged")
    (folder / "damaged" / "config.json").write_text("{}")
    with contextlib.chdir(folder), mock.patch.dict(ENGINES, {"inline": "tests.support.inline_engine"}):
        tag(["lake"], "done", "model", threshold=0.5)
        prepare(["lake"], "samples", "model")
        for name, data in (("first", "train.jsonl"), ("second", "renamed.jsonl")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoreWarning)
                report_of(name, data)


def report_of(name: str, data: str) -> None:
    spanmarker("evaluate", "--model", "model", "--data", data, "--report", name)


def with_model(words: list[str]) -> list[str]:
    """Return the words of a command with the tiny model, unless it names one or takes none."""
    takes_none = words[0] not in ("tag", "prepare") or "--model" in words or "--annotated" in words
    return words if takes_none else [words[0], "--model", "model", *words[1:]]


def transcript(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Run each command in a folder with the files, and yield it with its exit code and what it printed.

    Args:
        folder: the folder, absolute.
    """
    offline = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    with contextlib.chdir(folder), mock.patch.dict(os.environ, offline), mock.patch.dict(ENGINES):
        ENGINES.pop("inline", None)  # an engine of tests
        for name in [name for name in os.environ if name.startswith("AWS_") and name not in offline]:
            del os.environ[name]
        for line in (line for lines in MISTAKES.values() for line in lines.split("\n")):
            if not line.strip():
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoreWarning)
                done = spanmarker(*with_model(shlex.split(line)))
            printed = (done.stdout + done.stderr).replace(f"{folder}/", "").replace(str(folder), ".")
            printed = printed.replace(str(bundled_model_path()), "BUNDLED_MODEL")
            yield line.strip(), int(done.returncode), re.sub(r"\b[0-9a-f]{12,64}\b", "DIGEST", printed)


def snapshot(folder: Path) -> str:
    """Return all commands with their exit codes and output, below the job files that they name.

    Args:
        folder: an empty folder.
    """
    make_files(folder)
    lines = ["Job files", "=========", ""]
    for name, text in JOBS.items():
        lines += [f"{name}:", *(f"    {line}" for line in text.splitlines()), ""]
    found = {command: (code, printed) for command, code, printed in transcript(folder)}
    for title, commands in MISTAKES.items():
        lines += [title, "=" * len(title), ""]
        for command in filter(None, map(str.strip, commands.split("\n"))):
            code, printed = found[command]
            lines += [f"$ spanmarker {command}", *printed.rstrip("\n").split("\n"), f"(exit code {code})", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        SNAPSHOT.write_text(snapshot(Path(temporary).resolve()), encoding="utf-8")
