"""Examples in the help of each command: what is done, and the command that does it."""

from rich.markup import escape

#: Characters in a line of a command, besides its margin and the sign that it goes on.
_WIDTH = 72

EXAMPLES = {
    "tag": {
        "Tag a folder of Parquet, JSON lines or text files": "spanmarker tag --input docs/ --output tagged/",
        "Try a sentence; nothing is written": 'spanmarker tag --text "Ada Lovelace lived in London."',
        "See what a job would read, with texts in another column": (
            "spanmarker tag 'docs/*.parquet' --output tagged/ --text-column body --dry-run"
        ),
    },
    "prepare": {
        "Split and pack documents without a GPU, and tag them with one": (
            "spanmarker prepare --input docs/ --output samples/ --workers 8"
        ),
        "Prepare annotated data for training": (
            "spanmarker prepare --annotated --input train.conll --scheme IOB2 --encoder encoder/ --output train/"
        ),
        "Prepare texts in German, from a store": (
            "spanmarker prepare --input 's3://corpus/*.parquet' --output s3://corpus/samples --language de"
        ),
    },
    "status": {
        "Show what is done and left": "spanmarker status tagged/",
        "Follow a run until it ends": "spanmarker status tagged/ --watch",
        "Look at an output in a store": "spanmarker status s3://corpus/tagged",
    },
    "browse": {
        "Explore the entities": "spanmarker browse tagged/",
        "Also show the texts, read from the folder of the inputs": "spanmarker browse tagged/ --sources docs/",
        "On a machine without a screen": "spanmarker browse tagged/ --port 8000 --no-open",
    },
    "export": {
        "Write JSON lines": "spanmarker export tagged/ --to jsonl --destination exported/",
        "One CoNLL file of persons with high scores": (
            "spanmarker export tagged/ --to conll --destination persons.conll --one-file --label PER --min-score 0.9"
        ),
        "Ten documents for brat": "spanmarker export tagged/ --to brat --destination brat/ --one-file --limit 10",
    },
    "train": {
        "Train on JSON lines": (
            "spanmarker train --train train.jsonl --dev dev.jsonl --encoder encoder/ --output model/"
        ),
        "Train on CoNLL files, with a gate, and score the test data": (
            "spanmarker train --train train.conll --dev dev.conll --test test.conll --scheme IOB2 --encoder encoder/ "
            "--output model/ --gate"
        ),
        "Train with the settings of a job file and another seed": "spanmarker train --job train.toml --seed 43",
    },
    "evaluate": {
        "Score the model on annotated data": "spanmarker evaluate --model model/ --data test.jsonl",
        "Write a page that shows the errors": (
            "spanmarker evaluate --model model/ --data test.conll --scheme IOB2 --report evaluation/"
        ),
        "Only confident entities": "spanmarker evaluate --model model/ --data test.jsonl --threshold 0.8",
    },
    "compare": {
        "Compare two models": "spanmarker compare evaluation-a/ evaluation-b/",
        "Write a page": "spanmarker compare evaluation-a/ evaluation-b/ --report comparison/",
        "Make a report to compare": "spanmarker evaluate --model a/ --data test.jsonl --report evaluation-a/",
    },
    "representations": {
        "Analyse a model": "spanmarker representations --model model/ --data test.jsonl",
        "Write a page": "spanmarker representations --model model/ --data test.jsonl --report representations/",
        "Look at more spans of each class": "spanmarker representations --model model/ --data test.jsonl --spans 500",
    },
    "experiment": {
        "Run all that is missing": "spanmarker experiment experiment.toml",
        "Only the runs of one data set": "spanmarker experiment experiment.toml --only wnut17",
        "Repeat the runs of one configuration": "spanmarker experiment experiment.toml --redo wnut17/span_marker",
    },
    "convert": {
        "brat to JSON lines": "spanmarker convert brat/ --to jsonl --output train.jsonl",
        "Another label scheme": (
            "spanmarker convert train.conll --scheme IOB1 --to conll --to-scheme BIOES --output new.conll"
        ),
        "Keep the longest of nested entities": (
            "spanmarker convert train.jsonl --to conll --flatten longest --output train.conll"
        ),
    },
    "card": {
        "Name the model and its licence": 'spanmarker card model/ --name "News NER" --licence-id cc-by-4.0',
        "Add counts and examples of the labels": "spanmarker card model/ --train train.jsonl",
        "Remove a stored value": 'spanmarker card model/ --name ""',
    },
    "import-checkpoint": {
        "Import a checkpoint from the Hub": "spanmarker import-checkpoint owner/name model/",
        "Import a folder that the span_marker library saved": "spanmarker import-checkpoint checkpoint/ model/",
        "Tag with it": "spanmarker tag --input docs/ --output tagged/ --model model/",
    },
    "push": {
        "Publish a model": "spanmarker push model/ owner/name",
        "Publish it on a branch of a private repository": "spanmarker push model/ owner/name --private --branch v2",
        "Tag with what was published": "spanmarker tag --input docs/ --output tagged/ --model owner/name",
    },
    "fit": {
        "Fit a gate on documents like those to be tagged": (
            "spanmarker gate fit --model model/ --corpus docs/ --output gated/"
        ),
        "Also measure it on annotated data": (
            "spanmarker gate fit --model model/ --corpus docs/ --annotated dev.jsonl --output gated/"
        ),
        "Tag with it": "spanmarker tag --input docs/ --output tagged/ --model gated/ --gate on",
    },
}


def examples(command: str) -> str:
    """Return the examples of a command as markup. Long commands are continued on the next line, as a shell reads them.

    Args:
        command: its name.
    """
    lines = [f"[dim]{escape(what)}:[/dim]\n  {escape(_broken(line))}" for what, line in EXAMPLES[command].items()]
    return "\n".join(["[bold]Examples[/bold]\n", *lines])


def _broken(line: str) -> str:
    """Break a command before an option, so that it fits in a terminal of 80 columns.

    >>> print(_broken("spanmarker " + "--a b " * 20))
    spanmarker --a b --a b --a b --a b --a b --a b --a b --a b --a b --a b \\
        --a b --a b --a b --a b --a b --a b --a b --a b --a b --a b
    """
    lines = [""]
    for part in line.strip().replace(" --", "\n--").split("\n"):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > _WIDTH:
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)
