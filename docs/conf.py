"""The documentation site: `make docs` builds it into docs/_build/html."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from spanmarker_core import __version__  # noqa: E402

project = "spanmarker-pipelines"
author = "The spanmarker-pipelines authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated_pages"]
exclude_patterns = ["_build", "_ext"]
needs_sphinx = "8.0"

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.header"]  # tables of commands begin below the title

smartquotes = False  # It would turn "--" of options into a dash.
default_role = "code"  # docstrings mark names as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# Types in signatures. Only names of this project's own reference are links; others have their sites, and a build
# needs no network.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "monokai"
