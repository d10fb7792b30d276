"""What an export should hold, and what it holds."""

from pathlib import Path

from pipelines.storage import open_input
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import FORMATS, read_documents
from tests.support.jobs import rows, spanmarker

TEXTS = [
    "Barack Obama was in Paris. He flew to New York.",
    "Obama\r\nflew to\r\n\r\nParis in \u00a0 \u2028 May.\r\n",
    "Zu\u0308rich e\u0301 of Mu\u0308ller 각 and A\u030a the London.",
    "😀 Obama 👩‍👩‍👧 flew to 한글 and שלום.\n\nThe ﬁne York\u2063.",
    "",
    " \n ",
    "  the a of and in to was is  ",
]


def records(count, prefix="doc"):
    return [{"id": f"{prefix}/{number}", "text": TEXTS[number % len(TEXTS)]} for number in range(count)]


def export(output, to, destination, *more):
    """Run the command; return what it printed, or the code of its error."""
    done = spanmarker("export", output, "--to", to, "--destination", destination, *more)
    if done.returncode:
        return done.stderr.partition("[")[2].partition("]")[0]
    return done.stdout


def expected(output, texts, keep=lambda row: True):
    """(text, entities) by id of the documents that are not rejected; entities are (start, end, label)."""
    found = {
        row["document_id"]: (texts[row["document_id"]], set())
        for row in rows(output, "documents")
        if row["status"] != "rejected"
    }
    for row in filter(keep, rows(output, "annotations")):
        found[row["document_id"]][1].add((row["char_start"], row["char_end"], row["label"]))
    return found


def documents_at(path, to, scheme=None) -> list:
    """The documents of an export on this machine, as the formats' readers find them."""
    path, form = Path(path), FORMATS[to]
    if to == "datasets":
        found = sorted(each.parent for each in path.rglob("state.json"))
    elif path.is_file():
        found = [path]
    else:
        found = [each for each in sorted(path.rglob("[!_]*")) if each.name.endswith(form.endings)]
    sources = [Source(str(each), open_input) for each in found]
    return [document for each in sources for document in read_documents(each, to, ReadOptions(scheme=scheme))]


def content_of(documents):
    """The same form as `expected`."""
    found = {
        each.document_id: (each.text, {(entity.char_start, entity.char_end, entity.label) for entity in each.entities})
        for each in documents
    }
    assert len(found) == len(documents)
    return found
