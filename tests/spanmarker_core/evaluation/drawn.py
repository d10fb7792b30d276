"""Spans and sentences for hypothesis: few words and labels, so that they nest, cross and repeat."""

from hypothesis import strategies as st

from spanmarker_core.data import Sentence
from spanmarker_core.text.tag_schemes import Span

LABELS = ("PER", "LOC", "ORG")
N_WORDS = 8

SPANS = st.builds(
    lambda start, length, label: Span(start, min(start + length, N_WORDS), label),
    st.integers(0, N_WORDS - 1),
    st.integers(1, 5),
    st.sampled_from(LABELS),
)
SETS = st.sets(SPANS, max_size=7)
SCORES = st.integers(0, 16).map(lambda number: number / 16)
PREDICTIONS = st.dictionaries(SPANS, SCORES, max_size=7)
WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=N_WORDS, max_size=N_WORDS)


@st.composite
def evaluated(draw):
    """Sentences of a few documents, each with predictions."""
    made = []
    for document in range(draw(st.integers(1, 3))):
        for number in range(draw(st.integers(1, 3))):
            sentence = Sentence(f"d{document}", number, draw(WORDS), sorted(draw(SETS)))
            made.append((sentence, draw(PREDICTIONS)))
    return made
