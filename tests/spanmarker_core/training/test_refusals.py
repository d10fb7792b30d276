"""Trainings that are refused before work is spent on them, and data that nothing can be learned from."""

import pytest
import torch

from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.training import TrainingSettings, train
from tests.support.training import RUN, quiet, sentences

DATA = sentences()[:6]
TWICE = [*DATA, DATA[2]]
BARE = [Sentence("a", 0, ["x"], [])]
OTHER = [Sentence("a", 0, ["x"], [Span(0, 1, "event")])]
BLANK = [Sentence("a", 0, ["\u2063"], [Span(0, 1, "person")])]


def refused(encoder, folder, data=DATA, dev=DATA, settings=RUN, **options) -> CoreError:
    with pytest.raises(CoreError) as caught:
        train(data, dev, encoder, folder / "b", settings, log=quiet, **options)
    return caught.value


@pytest.mark.parametrize(
    ("data", "dev", "test", "code", "subject"),
    [
        ([], DATA, None, "data.empty", "the training data"),
        (DATA, [], None, "data.empty", "the dev data"),
        (BARE, DATA, None, "data.no_entities", "the training data"),
        (DATA, BARE, None, "data.no_entities", "the dev data"),
        (DATA, DATA, BARE, "data.no_entities", "the test data"),
        (DATA, OTHER, None, "data.no_common_label", None),
        (DATA, DATA, OTHER, "data.no_common_label", None),
        (TWICE, DATA, None, "data.duplicate_sentence", f"document {DATA[2].document_id}, sentence 0"),
        (DATA, TWICE, None, "data.duplicate_sentence", f"document {DATA[2].document_id}, sentence 0"),
        (DATA, DATA, TWICE, "data.duplicate_sentence", f"document {DATA[2].document_id}, sentence 0"),
        (BLANK, [*DATA, *BLANK], None, "data.no_windows", "the training data"),
    ],
)
def test_data_that_nothing_can_be_learned_from(data, dev, test, code, subject, encoder, tmp_path):
    error = refused(encoder, tmp_path, data, dev, test_sentences=test or ())
    assert error.code == code
    assert subject is None or subject in error.values.values()


def test_windows_longer_than_the_encoder_has(encoder, tmp_path):
    assert refused(encoder, tmp_path, settings=TrainingSettings(max_tokens=500)).code == "encoder.window_too_long"


def test_folders_that_are_not_free(encoder, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    assert refused(encoder, tmp_path).code == "bundle.output_exists"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.training").write_text("")
    assert refused(encoder, tmp_path / "other").code == "training.folder_not_writable"


@pytest.mark.skipif(torch.cuda.is_available(), reason="is for machines without a GPU")
def test_what_a_device_cannot_do(encoder, tmp_path):
    error = refused(encoder, tmp_path, settings=RUN.replace(precision="fp16"))
    assert error.code == "training.no_precision"
    assert (error.values["precision"], error.values["other"]) == ("fp16", "bf16")


@pytest.mark.parametrize("option", ["precision", "splitter", "weight_dtype"])
def test_settings_outside_their_choices(option):
    with pytest.raises(CoreError) as caught:
        RUN.replace(**{option: "x"})
    assert caught.value.code == "call.unknown_option"
    assert (caught.value.values["option"], caught.value.values["value"]) == (option, "x")


def test_spans_that_see_each_other_are_learned_together():
    with pytest.raises(CoreError, match=r"training\.contradiction.*see each other"):
        RUN.replace(options={"attention": "all_markers"}, negatives=3)


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED"])
def test_weights_that_are_to_be_shared_out(kind, encoder, tmp_path, monkeypatch):
    """Processes have different numbers of marker chunks, and would wait for each other for ever."""
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    error = refused(encoder, tmp_path)
    assert error.code == "training.no_sharding"
    assert kind in str(error)
