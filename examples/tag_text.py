"""Tags a text from Python: labels, scores and offsets, and a threshold for each label.

Prints the entities of a text with the threshold stored in the model, with one threshold for all labels, and with a
threshold for each of two labels.
"""

from spanmarker_core import Entity, load

TEXT = (
    "Steven Spielberg directed Jaws for Universal Pictures. "
    "Barack Obama flew from Paris to New York, where he spoke at the United Nations."
)


def show(title: str, entities: list[Entity]) -> None:
    """Print one line per entity.

    Args:
        title: the line above them.
        entities: the entities of the text.
    """
    print(title)
    for entity in entities:
        # Offsets count code points and are half-open, so slicing the text gives the entity.
        assert TEXT[entity.char_start : entity.char_end] == entity.text
        print(f"  {entity.char_start:>3} to {entity.char_end:<3} {entity.score:.2f}  {entity.label:<22} {entity.text}")


def main() -> None:
    """Tag the text three times."""
    model = load()  # the bundled model; or a folder, or owner/name on the Hugging Face Hub
    show("Threshold of the model:", model.tag_text(TEXT))
    show("Scores of at least 0.9:", model.tag_text(TEXT, threshold=0.9))
    # Labels without a threshold are not returned.
    by_label = {"person-politician": 0.5, "person-director": 0.5}
    show("Two labels, each with its own threshold:", model.tag_text(TEXT, threshold=by_label))


if __name__ == "__main__":
    main()
