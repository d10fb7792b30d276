"""Converts `tasks.json` to `result.conll` with Label Studio's own converter.

The library requires an older numpy than this project, so run this in an environment of its own:

    pip install label-studio-sdk==2.1.2 && python tests/spanmarker_core/formats/label_studio/convert.py
"""

from pathlib import Path

from label_studio_sdk.converter import Converter

HERE = Path(__file__).parent
LABELS = '<Labels name="label" toName="text"><Label value="PER"/></Labels>'
CONFIG = f'<View>{LABELS}<Text name="text" value="$text"/></View>'

if __name__ == "__main__":
    Converter(CONFIG, None).convert_to_conll2003(str(HERE / "tasks.json"), str(HERE), is_dir=False)
