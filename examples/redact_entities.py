"""Replaces the persons of a text by placeholders, by means of character offsets.

Prints an article on Martin Luther in which each name is [PERSON 1], [PERSON 2], …, the same name always with the same
number, and the table of numbers. The bundled model misses names, so don't rely on it to protect personal data.
"""

import pyarrow.parquet as pq

from spanmarker_core import Entity, load

ARTICLE = "xquad-en-06"


def redact(text: str, entities: list[Entity]) -> tuple[str, dict[str, str]]:
    """Return the text with placeholders, and the placeholder of each name.

    Args:
        text: the text that was tagged.
        entities: entities of the text to replace, in order and without overlaps.
    """
    placeholders: dict[str, str] = {}
    parts, end = [], 0
    for entity in entities:
        placeholder = placeholders.setdefault(entity.text, f"[PERSON {len(placeholders) + 1}]")
        parts += [text[end : entity.char_start], placeholder]
        end = entity.char_end
    return "".join([*parts, text[end:]]), placeholders


def main() -> None:
    """Redact the article."""
    articles = pq.read_table("infra/demo/wikipedia.parquet", filters=[("id", "=", ARTICLE)])
    text = articles["text"][0].as_py()
    # The default decoder is flat, so entities never overlap.
    persons = [entity for entity in load().tag_text(text) if entity.label.startswith("person-")]
    redacted, placeholders = redact(text, persons)
    print(redacted, end="\n\n")
    for name, placeholder in placeholders.items():
        print(f"{placeholder} {name}")


if __name__ == "__main__":
    main()
