import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value, disable_progress_bars

from spanmarker_core.data import Sentence, Span, read_annotated, read_dataset_folder
from spanmarker_core.errors import CoreError

disable_progress_bars()

STRINGS = Sequence(Value("string"))
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
ENTITY = {"start": Value("int32"), "end": Value("int32"), "label": Value("string")}


@pytest.fixture
def save(tmp_path):
    def save_columns(features=None, **columns):
        path = tmp_path / "data"
        Dataset.from_dict(columns, features=features and Features(features)).save_to_disk(str(path))
        return path

    return save_columns


def refused(path, code, scheme="IOB2"):
    with pytest.raises(CoreError) as caught:
        list(read_dataset_folder(path, scheme))
    assert caught.value.code == code
    return str(caught.value)


def test_class_labels(save):
    path = save(
        {"tokens": STRINGS, "ner_tags": Sequence(ClassLabel(names=NAMES)), "id": Value("string")},
        tokens=[["Ada", "Byron", "met"], ["Bern"]],
        ner_tags=[[1, 2, 0], [3]],
        id=["x", "y"],
    )
    assert list(read_dataset_folder(path, "IOB2")) == [
        Sentence("doc-0", 0, ["Ada", "Byron", "met"], [Span(0, 2, "PER")]),
        Sentence("doc-1", 0, ["Bern"], [Span(0, 1, "LOC")]),
    ]


def test_string_tags_and_document_ids(save):
    # span_marker numbers documents, so a whole number is an id too.
    path = save(
        tokens=[["Ada"], ["Bern"], ["Ada"]],
        ner_tags=[["PER"], ["O"], ["PER"]],
        document_id=[5, 5, 6],
        sentence_id=[0, 1, 0],
    )
    assert [(s.document_id, s.sentence_id) for s in read_dataset_folder(path, "plain")] == [
        ("5", 0),
        ("5", 1),
        ("6", 0),
    ]


def test_entities_column(save):
    path = save(
        {"tokens": STRINGS, "entities": [ENTITY]},
        tokens=[["New", "York", "City"], ["x"]],
        entities=[[{"start": 0, "end": 3, "label": "LOC"}, {"start": 0, "end": 2, "label": "LOC"}], []],
    )
    for scheme in (None, "spans"):
        first, second = read_dataset_folder(path, scheme)
        assert first.entities == [Span(0, 3, "LOC"), Span(0, 2, "LOC")]
        assert second.entities == []
    assert "Use --scheme: spans" in refused(path, "data.scheme_mismatch", "IOB2")


def test_entities_with_class_labels(save):
    path = save(
        {"tokens": STRINGS, "entities": [ENTITY | {"label": ClassLabel(names=["LOC", "PER"])}]},
        tokens=[["Ada"]],
        entities=[[{"start": 0, "end": 1, "label": 1}]],
    )
    assert next(read_dataset_folder(path)).entities == [Span(0, 1, "PER")]


def test_both_columns_need_the_choice(save):
    path = save(
        {"tokens": STRINGS, "ner_tags": STRINGS, "entities": [ENTITY]},
        tokens=[["Ada"]],
        ner_tags=[["B-A"]],
        entities=[[{"start": 0, "end": 1, "label": "B"}]],
    )
    assert "plain, spans" in refused(path, "data.scheme_needed", None)
    assert next(read_dataset_folder(path, "IOB2")).entities == [Span(0, 1, "A")]
    assert next(read_dataset_folder(path, "spans")).entities == [Span(0, 1, "B")]


def test_tags_need_a_scheme(save):
    path = save(tokens=[["Ada"]], ner_tags=[["B-PER"]])
    assert "IOB1, IOB2" in refused(path, "data.scheme_needed", None)
    assert "contains tags" in refused(path, "data.scheme_mismatch", "spans")
    refused(path, "call.unknown_option", "IOBES")


def test_numbers_without_names_are_refused(save):
    path = save(tokens=[["Ada"]], ner_tags=[[1]])
    assert "ClassLabel" in refused(path, "data.bad_dataset")


@pytest.mark.parametrize(
    ("tokens", "tags", "says"),
    [
        (["Ada", "met"], ["B-PER"], "2 tokens but 1 tags"),
        (["Ada"], None, "1 tokens but 0 tags"),
        (["Ada"], ["I-PER"], "the start of the sentence"),
        (["Ada"], [None], "not a string"),
        ([None], ["O"], "token 0 is null"),
        (["\t"], ["O"], "token 0 is blank"),
        (None, ["O"], "tokens is null"),
    ],
)
def test_bad_rows(save, tokens, tags, says):
    path = save({"tokens": STRINGS, "ner_tags": STRINGS}, tokens=[["good"], tokens], ner_tags=[["O"], tags])
    message = refused(path, "data.bad_row")
    assert "row 1 (from 0): " in message
    assert says in message


def test_a_number_that_names_no_label(save):
    path = save({"tokens": STRINGS, "ner_tags": Sequence(ClassLabel(names=NAMES))}, tokens=[["Ada"]], ner_tags=[[-1]])
    assert "-1 is not a number of one of the labels" in refused(path, "data.bad_row")


def test_bad_entities_and_order(save):
    entity = {"start": 0, "end": 2, "label": "X"}
    path = save(tokens=[["Ada"]], entities=[[entity]])
    assert "do not fit 1 words" in refused(path, "data.bad_row", None)


def test_document_order(save):
    path = save(tokens=[["a"], ["b"]], ner_tags=[["O"], ["O"]], document_id=["d", "d"], sentence_id=[1, 1])
    assert "has sentence 1 twice" in refused(path, "data.bad_row")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"words": [["a"]], "ner_tags": [["O"]]}, "no tokens column"),
        ({"tokens": [["a"]], "tags": [["O"]]}, "neither ner_tags nor entities"),
        ({"tokens": [["a"]], "ner_tags": [["O"]], "document_id": ["d"]}, "document_id only"),
    ],
)
def test_bad_columns(save, columns, says):
    assert says in refused(save(**columns), "data.bad_dataset")


def test_entities_of_another_shape(save):
    assert "not a list of {start, end, label}" in refused(
        save(tokens=[["a"]], entities=[["X"]]), "data.bad_dataset", None
    )


def test_a_dictionary_of_splits_is_refused(tmp_path):
    DatasetDict({"train": Dataset.from_dict({"tokens": [["a"]], "ner_tags": [["O"]]})}).save_to_disk(
        str(tmp_path / "all")
    )
    assert "pass the folder of one" in refused(tmp_path / "all", "data.bad_dataset")
    assert len(list(read_dataset_folder(tmp_path / "all" / "train", "IOB2"))) == 1


@pytest.mark.parametrize("features", [None, {"tokens": STRINGS, "ner_tags": STRINGS}])
def test_a_data_set_without_rows_is_empty(save, features):
    """`datasets` saves one without a table, which it can't load again; one whose rows were all left out it can."""
    refused(save(features, tokens=[], ner_tags=[]), "data.empty")


def test_one_whose_rows_were_all_left_out_holds_no_sentence(tmp_path):
    rows = Dataset.from_dict(
        {"tokens": [["a"]], "ner_tags": [["O"]]}, features=Features(tokens=STRINGS, ner_tags=STRINGS)
    )
    rows.select([]).save_to_disk(str(tmp_path / "data"))
    with pytest.raises(CoreError, match=r"data\.empty"):
        list(read_annotated(tmp_path / "data", "IOB2"))


def test_a_damaged_folder(save):
    path = save(tokens=[["a"]], ner_tags=[["O"]])
    next(path.glob("*.arrow")).write_bytes(b"not arrow")
    assert "cannot load it" in refused(path, "data.bad_dataset")
