"""An output whose ids, texts, labels and reasons are what an attacker would write, with its sources."""

import json
from pathlib import Path

from tests.support.browsed_output import add_shard, annotation, begin, document

SCRIPT = "<script>alert(1)</script>"
STRINGS = [
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' OR 1=1 --",
    "../../../../etc/passwd",
    "%2e%2e%2f%00",
    "a\r\nSet-Cookie: x=1\r\n\r\n<b>",
    "\u202egnp.exe\u2066",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "null",
    "None",
    "",
    "?a=b&c=d#e",
    "&lt;b&gt;",
    "a" * 5000,
    "</title></style></script><script>alert(2)</script>",
    "e\u0301\u0300" * 200,
    "\U000e0041\U000e0042",
    "\x00\x01\x1b[31m",
]


def hostile_output(folder: Path) -> Path:
    """Make the output; each string is an id, an entity with another as its label, a source's name and a reason."""
    output = folder / "out"
    begin(output)
    source = folder / "source.jsonl"
    annotations, documents, rejects, offset = [], [], [], 0
    with open(source, "wb") as file:
        for number, string in enumerate(STRINGS):
            word = string or "empty"
            text = f"{SCRIPT} before {word} after it.\n{string}"
            line = json.dumps({"id": string, "text": text}).encode() + b"\n"
            file.write(line)
            start = len(SCRIPT) + 8
            row = annotation(string, start, start + len(word), word, STRINGS[number - 1] or "none", entity_id=0)
            annotations.append(row)
            documents.append(document(string, str(source), offset, len(text)))
            offset += len(line)
            rejects.append(
                {
                    "document_id": string or None,
                    "source": f"/data/{string}",
                    "source_row": None if number % 2 else number,
                    "stage": "read",
                    "code": "broken_json",
                    "message": string,
                    "raw": string.encode("utf-8")[:4096] + b"\xff\xfe",
                }
            )
        token = "x" * (1 << 20)
        line = json.dumps({"id": "token", "text": token}).encode() + b"\n"
        file.write(line)
        annotations.append(annotation("token", 0, len(token), token))
        documents.append(document("token", str(source), offset, len(token)))
    documents.append(document(None, "/data/<b>", None, 0, status="rejected"))
    documents.append(document(None, "/data/<b>", 7, 0, status="rejected"))
    add_shard(output, "hostile", annotations, documents, rejects, source=str(source))
    return output
