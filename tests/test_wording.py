"""Docstrings, comments, strings and pages keep clear of phrases that no native writer would use.

Each folder has a number of hits that it may have; a folder that is not listed may have none. To see all hits:

    python -m tests.test_wording

After a text was reworded, lower the folder's number in `ALLOWED` to what this prints. Never raise one.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("schemas", "spanmarker_core", "pipelines", "infra", "benchmarks", "examples")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/README.md")
PHRASES = re.compile(
    r"""
    (?<!there\ )\b(is|are)\ no\ (?!longer\b|more\b)\w+  # "is not a", "are not"
    | \bmend(s|ed|ing)?\b(?!:)                          # fix; `mended:` is a stored name
    | \banew\b                                          # again, from scratch
    | \bamiss\b                                         # wrong
    | \b(tell|tells|told)\ of\b                         # describes
    | \bcan(not|'t|\ not)\ be\ had\b                    # is not available
    | \b(go|goes|gone|going)\ on\ (with|from)\b         # resume
    | \bso\ many\b                                      # N
    | \b(is|are|stands?)\ there\ twice\b              # occurs twice
    | \bcan(not|'t|\ not)\ be\ told\b                # unknown
    | \bleave\ (it|them|one\ of\ them)\ out\b         # remove
    | \bhead\ of\ tags\b                              # tagging head
    | \bthe\ matter\b                                # what is wrong, the problem
    | \bhalf\ a\ surrogate\b                          # unpaired surrogate
    | \b(is|are)\ gone\b                             # no longer exists, is missing
    | \b(words|tokens|bytes|documents|sentences|shards|rows|windows|steps)\ a\ second\b  # per second
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: How many hits a folder still has.
ALLOWED: dict[str, int] = {}


def texts(path: Path) -> Iterator[str]:
    """Docstrings, comments and texts of a Python file, or a page without its code; all in one line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield " ".join(re.sub(r"^```.*?^```|`[^`\n]*`", "", source, flags=re.DOTALL | re.MULTILINE).split())
        return
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield " ".join(node.value.split())
    yield from comments(source)


def comments(source: str) -> Iterator[str]:
    """Each block of comment lines, in one line."""
    block, last = "", -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield block
                block = ""
            block, last = f"{block} {token.string.lstrip('#: ')}", token.start[0]
    yield block


def hits(text: str) -> Iterator[str]:
    """Phrases of the list in a text; a docstring that begins with a relative clause is one.

    >>> list(hits("What is amiss with a file that is no longer there"))
    ['What', 'amiss']
    """
    if text.startswith(("What ", "Whose ")):
        yield text.split()[0]
    yield from (found[0] for found in PHRASES.finditer(text))


def found() -> Iterator[tuple[str, str, str]]:
    """(folder, file, phrase) of each hit."""
    paths = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    for path in paths:
        name = path.relative_to(ROOT)
        folder = "/".join(name.parent.parts[:2]) or name.name
        yield from ((folder, name.as_posix(), phrase) for text in texts(path) for phrase in hits(text))


def test_no_folder_has_more_hits_than_allowed():
    counts = Counter(folder for folder, *_ in found())
    grown = {folder: count for folder, count in counts.items() if count > ALLOWED.get(folder, 0)}
    assert grown == {}, "python -m tests.test_wording lists the phrases"


def test_phrases():
    assert list(hits("these inputs are no data; mend it")) == ["are no data", "mend"]
    assert list(hits("There is no file. It is no longer there. A recommendation.")) == []
    assert list(comments("x = 1  # so\n# many\n\n# far")) == ["", " so many", " far"]


if __name__ == "__main__":
    all_hits = list(found())
    print("\n".join(f"{name}: {phrase}" for _, name, phrase in all_hits))
    print("Hits by folder:", dict(sorted(Counter(folder for folder, *_ in all_hits).items())))
