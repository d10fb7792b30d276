"""Uses the model as a component of a spaCy pipeline, with `doc.ents`, `doc.spans` and a rule of spaCy's after it.

Prints the entities of two texts with the scores of the model, and the sentences that mention a place. Needs
`pip install 'spanmarker-pipelines[spacy]'`; without spaCy it says so and does nothing.
"""

from importlib.util import find_spec

from spanmarker_core.default_model import bundled_model_path

TEXTS = [
    "Barack Obama flew from Paris to New York. He spoke at the United Nations. It rained.",
    "Universal Pictures is in Los Angeles. Steven Spielberg directed Jaws.",
]


def main() -> None:
    """Build the pipeline and print what it finds."""
    if find_spec("spacy") is None:
        print("This example needs spaCy: pip install 'spanmarker-pipelines[spacy]'")
        return
    import spacy

    import spanmarker_core.integrations.spacy  # noqa: F401  # registers the component if the package isn't installed

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("spanmarker", config={"model": str(bundled_model_path()), "threshold": 0.5})
    for doc in nlp.pipe(TEXTS):
        spans = doc.spans["spanmarker"]
        for span, score in zip(spans, spans.attrs["scores"], strict=True):
            print(f"{score:.2f}  {span.label_:<22} {span.text}")
        for sentence in doc.sents:
            if places := [entity.text for entity in sentence.ents if entity.label_ == "location-GPE"]:
                print(f"      {', '.join(places)}: {sentence.text}")


if __name__ == "__main__":
    main()
