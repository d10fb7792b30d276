"""Converts tasks with Label Studio's own converter, to CoNLL and to JSON-MIN.

The library pins older versions than this project, so it needs an environment of its own. This renews the golden files:

    python -m tests.spanmarker_core.formats.test_real_readers
    pip install label-studio-sdk==2.1.2
    python tests/spanmarker_core/formats/label_studio/convert.py tasks.json FOLDER
"""

import sys

from label_studio_sdk.converter import Converter

LABELS = '<Labels name="label" toName="text"><Label value="PER"/></Labels>'
CONFIG = f'<View>{LABELS}<Text name="text" value="$text"/></View>'

if __name__ == "__main__":
    tasks, folder = sys.argv[1:]
    converter = Converter(CONFIG, None)
    converter.convert_to_conll2003(tasks, folder, is_dir=False)
    converter.convert_to_json_min(tasks, folder, is_dir=False)
