"""Put on PYTHONPATH, makes some texts end the process that works on them, as a bug in a library would.

The words say where: `KILLREAD` while a record is read, `KILLSPLIT` while it is split, `KILLTAG` while it is tagged.
`HANGTAG` never returns, `EATTAG` takes all the memory that it gets, and `SLOWSPLIT` takes a tenth of a second, so that
a job is not over before it can be hurt.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time


def _kill(*_):
    os.abort()


def _eat(*_):
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)) * 16)


def _patch_read(module):
    class Json:
        loads = staticmethod(_guarded(module.json.loads, lambda text: text, KILLREAD=_kill))

    module.json = Json


def _patch_sentences(module):
    class Library:
        get_sentence_boundaries = staticmethod(
            _guarded(
                module.sentencex.get_sentence_boundaries,
                lambda language, text: text,
                KILLSPLIT=_kill,
                SLOWSPLIT=lambda: time.sleep(0.1),
            )
        )

    module.sentencex = Library


def _patch_tag(module):
    module.tag = _guarded(
        module.tag,
        lambda samples, *_: " ".join(samples.texts),
        KILLTAG=_kill,
        HANGTAG=lambda: time.sleep(3600),
        EATTAG=_eat,
    )


def _guarded(function, text_of, **deeds):
    def guarded(*args):
        text = text_of(*args)
        for word, deed in deeds.items():
            if word in text:
                deed()
        return function(*args)

    return guarded


_PATCHES = {
    "pipelines.stages.lines": _patch_read,
    "pipelines.stages.tag": _patch_tag,
    "spanmarker_core.text.sentences": _patch_sentences,
}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _PATCHES[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
