"""Make the golden files in `golden/`: tiny span_marker checkpoints and what the library answers with them.

    python tests/parity/make_golden.py                      # makes .venv-span-marker/ first if it is missing
    python tests/parity/make_golden.py --python PATH        # an interpreter that has span_marker 1.8.1

README.md beside this file says what the golden files hold.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from span_marker_environment import python_with_span_marker

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, help="an interpreter that has span_marker 1.8.1")
    parser.add_argument("--output", type=Path, default=HERE / "golden")
    arguments = parser.parse_args()
    python = arguments.python or python_with_span_marker()
    # One thread and no hub: the same sums in the same order, and no look for the encoders' names online.
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    output = arguments.output
    if output.exists() and not (output / "faults.json").exists():
        parser.error(f"{output} exists and holds no golden files, so it will not be replaced")
    with tempfile.TemporaryDirectory() as scratch:
        command = [python.absolute(), HERE / "write_golden.py"]
        subprocess.run(command, check=True, cwd=scratch, env={**os.environ, **quiet})
        shutil.rmtree(output, ignore_errors=True)
        # Not copytree's copy2: the library saves some files readable by their owner alone.
        shutil.copytree(Path(scratch, "golden"), output, copy_function=shutil.copyfile)


if __name__ == "__main__":
    main()
