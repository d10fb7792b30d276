"""Imports go one way: between packages, between modules, and never to torch where none is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = ("schemas", "spanmarker_core", "pipelines")
#: Parts of each product, lowest first. A part imports from those in lines above its own, never from its neighbours.
LAYERS = {
    "schemas": [["*"]],
    "spanmarker_core": [
        ["errors", "arrays", "charts", "shown"],
        ["text", "architectures"],
        ["windows"],
        ["spans", "data"],
        ["formats"],
        ["bundle", "default_model"],
        ["models"],
        ["inference"],
        ["evaluation"],
        ["card"],
        ["training"],
        ["integrations"],
    ],
    "pipelines": [
        ["errors"],
        ["task", "pages", "processes"],
        ["storage"],
        ["stages", "output"],
        ["planning", "training_data"],
        ["shards", "browse", "export", "snapshots"],
        ["engines"],
        ["jobs"],
        ["report"],
        ["runs"],
        ["experiment"],
        ["commands"],
        ["cli"],
    ],
}
#: Public names that are kept where they were: `from pipelines.bundled import …` and the like.
REEXPORTS = {"pipelines.bundled", "pipelines.beam_transforms"}
#: Parts whose modules can be imported without torch.
WITHOUT_TORCH = ["schemas", "spanmarker_core.text", "spanmarker_core.windows", "spanmarker_core.spans"]
WITHOUT_TORCH += ["spanmarker_core.architectures", "spanmarker_core.data", "spanmarker_core.formats"]
WITHOUT_TORCH += ["pipelines.jobs", "pipelines.output"]
WITHOUT_TORCH += ["pipelines.planning", "pipelines.stages", "pipelines.storage", "pipelines.processes"]
WITHOUT_TORCH += [
    "pipelines.shards",
    "pipelines.commands",
    "pipelines.browse",
    "pipelines.export",
    "pipelines.snapshots",
]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for product in PRODUCT for path in sorted((ROOT / product).rglob("*.py"))}


def imports(path: Path) -> Iterator[str]:
    """The product's modules that a module imports, anywhere but for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


GRAPH = nx.DiGraph(
    (name, found) for name, path in MODULES.items() for found in imports(path) if found in MODULES and found != name
)


def rank(module: str) -> tuple[int, int, str]:
    """Where a module stands: the place of its product, the line of its part, and the part."""
    product, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    if product == "schemas" or not part:
        return PRODUCT.index(product), 0, ""
    line = next(number for number, parts in enumerate(LAYERS[product]) if part in parts)
    return PRODUCT.index(product), line, part


def test_every_part_has_its_place():
    parts = {part for lines in LAYERS.values() for line in lines for part in line}
    for name in MODULES:
        _, dot, rest = name.partition(".")
        if dot and not name.startswith("schemas") and name not in REEXPORTS:
            assert rest.partition(".")[0] in parts, name


def test_imports_go_down():
    wrong = []
    for importer, imported in GRAPH.edges:
        if importer in REEXPORTS or importer.partition(".")[0] == importer or imported.partition(".")[0] == imported:
            continue  # The products' own `__init__` files say who is public.
        here, there = rank(importer), rank(imported)
        if here[:2] < there[:2] or (here[:2] == there[:2] and here[2] != there[2]):
            wrong.append(f"{importer} imports {imported}")
    assert not wrong


def test_no_module_imports_itself_by_way_of_others():
    assert [sorted(circle) for circle in nx.strongly_connected_components(GRAPH) if len(circle) > 1] == []


def without(libraries: set[str], *names: str) -> bool:
    """Whether a process that imports some modules imports none of some libraries."""
    code = f"import sys, importlib\nfor name in {names}: importlib.import_module(name)\n"
    code += f"sys.exit(not {libraries}.isdisjoint(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@pytest.mark.parametrize("part", WITHOUT_TORCH)
def test_parts_that_need_no_torch_import_none(part):
    assert without({"torch"}, *(name for name in MODULES if name == part or name.startswith(f"{part}.")))


@pytest.mark.parametrize(
    ("names", "libraries"),
    [
        (("spanmarker_core", "spanmarker_core.bundle"), {"torch"}),
        (("pipelines.runs.run", "pipelines.jobs", "pipelines.engines.local"), {"torch"}),
        (("pipelines.engines.dask.driver",), {"torch"}),
        (("pipelines.engines.beam.driver",), {"torch", "apache_beam"}),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_drivers_and_the_package_are_imported_without_torch(names, libraries):
    assert without(libraries, *names)


def test_a_wrong_option_of_train_is_refused_without_torch(tmp_path):
    code = "import sys\nfrom pipelines import cli\nsys.argv = ['spanmarker', 'train', '--train', 'x', '--dev', 'y']\n"
    code += "sys.argv += ['--encoder', 'z', '--output', 'o', '--learning-rate', '-1']\n"
    code += "try:\n    cli.main()\nexcept SystemExit as end:\n    sys.exit(10 * ('torch' in sys.modules) + end.code)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, cwd=tmp_path).returncode == 1
