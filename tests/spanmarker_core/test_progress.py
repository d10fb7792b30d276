"""What long operations tell of their progress: each batch, and in sum all of the work."""

from contextlib import contextmanager

import pytest

from spanmarker_core.data.batches import count_words
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.evaluation.evaluate import score
from spanmarker_core.evaluation.predict import predict
from spanmarker_core.evaluation.representations.representations import analyse
from spanmarker_core.inference import scorer
from spanmarker_core.progress import SILENT
from spanmarker_core.training import train
from tests.support.training import RUN, quiet, sentences


class Recorder:
    """Keeps the phases in the order in which they ended: (name, total, unit, done), and all that was shown."""

    def __init__(self):
        self.ended, self.shown, self.calls, self._open = [], [], 0, [0.0]

    @contextmanager
    def phase(self, name, total=None, unit="", done=0):
        self._open.append(done)
        try:
            yield
        finally:
            self.ended.append((name, total, unit, self._open.pop()))

    def advance(self, count=0, shown=None):
        self._open[-1] += count
        self.calls += 1
        self.shown += [shown] if shown else []

    @property
    def done(self):
        return self._open[0]


@pytest.fixture
def recorder(tiny, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(tiny, "progress", recorder)
    monkeypatch.setattr(scorer, "BATCH_TOKENS", {"cpu": 40})
    return recorder


@pytest.mark.parametrize("work", [score, lambda model, data: list(predict(model, data)), analyse])
def test_every_batch_is_told_and_in_sum_every_word(tiny, recorder, work):
    data = sentences()
    work(tiny, data)
    assert recorder.done == count_words(data)
    assert recorder.calls > 1


def test_words_that_are_shown_as_context_count_once(tiny, recorder):
    data = sentences()
    windows = pack_annotated(data, tiny.packer, tiny.config.context)
    tiny.score(windows)
    assert recorder.done == count_words(data)


def test_a_training_tells_its_steps_and_what_it_scores_and_writes(encoder, tmp_path):
    data, dev = sentences(), sentences()[:10]
    recorder = Recorder()
    result = train(data, dev, encoder, tmp_path / "b", RUN, test_sentences=dev, log=quiet, progress=recorder)
    words = count_words(dev)
    names = [name for name, *_ in recorder.ended]
    assert names.count("scoring dev") == RUN.epochs + 1
    assert ("training", result.steps, "steps", result.steps) in recorder.ended
    assert ("scoring dev", words, "words", words) in recorder.ended
    assert ("scoring test", words, "words", words) in recorder.ended
    assert names[-1] == "writing the model and its card"
    assert len(recorder.shown) == result.steps
    assert recorder.shown[0].startswith("epoch 1 of 3, loss ")
    assert recorder.shown[-1].startswith("epoch 3 of 3, loss ")


def test_silence_is_possible():
    with SILENT.phase("nothing", 1, "words"):
        SILENT.advance(1, "still nothing")
