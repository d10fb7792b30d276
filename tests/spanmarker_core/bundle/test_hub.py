"""from_pretrained, save_pretrained and push_to_hub: with folders, and with the hub's client against a small hub."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from functools import partial

import pytest
from huggingface_hub import close_session, constants

from spanmarker_core import Tagger, load
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.bundle.repositories import BUNDLE_FILES as FILES
from spanmarker_core.bundle.repositories import find_bundle, find_encoder
from spanmarker_core.errors import CoreError
from tests.services.servers import hub as hubs

WORDS = [["Barack", "Obama", "flew", "to", "Paris"]]


def code_of(call) -> str:
    with pytest.raises(CoreError) as caught:
        call()
    return caught.value.code


def test_a_folder_is_loaded_with_its_options(tiny_bundle, tiny):
    assert Tagger.from_pretrained(tiny_bundle).tag_words(WORDS) == tiny.tag_words(WORDS)
    assert Tagger.from_pretrained(str(tiny_bundle), dtype="int8").dtype == "int8"
    assert code_of(lambda: Tagger.from_pretrained(tiny_bundle, gate="on")) == "call.no_gate"


@pytest.mark.parametrize("name", ["nowhere", "../nowhere", "/no/where", "a/b/c", "https://hub/a/b"])
def test_what_is_no_folder_and_no_repository(name):
    assert code_of(lambda: Tagger.from_pretrained(name)) == "hub.not_found"


def test_a_copy_is_the_same_in_every_byte(tiny_bundle, tmp_path):
    (tiny_bundle / "notes.txt").write_text("not part of a bundle")
    model = load(tiny_bundle, dtype="int8")  # loaded in another format than it is stored in
    assert model.save_pretrained(tmp_path / "copy") == read_info(tiny_bundle).digest
    names = [name for name in FILES if (tiny_bundle / name).is_file()]
    assert len(names) == 5
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == sorted(names)
    assert filecmp.cmpfiles(tiny_bundle, tmp_path / "copy", names, shallow=False)[0] == names
    assert load(tmp_path / "copy").save_pretrained(tmp_path / "again") == read_info(tiny_bundle).digest


def test_nothing_is_written_over(tiny, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert code_of(lambda: tiny.save_pretrained(tmp_path)) == "bundle.output_exists"


@pytest.mark.parametrize("name", ["copy", "new/copy"])
def test_a_bundle_that_changed_since_is_not_copied(tiny_bundle, tmp_path, name):
    bundle = shutil.copytree(tiny_bundle, tmp_path / "bundle")
    model = load(bundle)
    with open(bundle / "model.safetensors", "ab") as file:
        file.write(b"more")
    assert code_of(lambda: model.save_pretrained(tmp_path / name)) == "bundle.digest_mismatch"
    assert code_of(lambda: model.push_to_hub("owner/name")) == "bundle.digest_mismatch"
    (bundle / "config.json").write_text("{}")
    shutil.rmtree(bundle)
    assert code_of(lambda: model.save_pretrained(tmp_path / name)) == "bundle.not_found"
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_model_that_was_never_stored(tiny):
    made = Tagger(tiny.config, tiny.packer, tiny.network, tiny.device)
    assert code_of(lambda: made.save_pretrained("anywhere")) == "hub.not_stored"
    assert code_of(lambda: made.push_to_hub("owner/name")) == "hub.not_stored"


def test_pushed_and_loaded_again(tiny_bundle, tiny, hub):
    others = {"pytorch_model.bin": b"pickle", "code.py": b"raise"}
    hub.commit("owner/old", others)
    commit = tiny.push_to_hub("owner/old", token=hubs.TOKEN)
    bundle = {name: (tiny_bundle / name).read_bytes() for name in FILES if (tiny_bundle / name).is_file()}
    assert hub.commits["owner/old"][commit] == bundle | others
    hub.asked.clear()
    loaded = Tagger.from_pretrained("owner/old", revision=commit).bundle
    assert loaded.digest == read_info(tiny_bundle).digest
    assert sorted(path.name for path in loaded.path.iterdir()) == sorted(bundle)
    assert not [call for call in hub.asked if call.endswith((".bin", ".py"))]
    hub.asked.clear()
    again = Tagger.from_pretrained("owner/old", revision=commit, local_files_only=True).bundle
    assert (again.path, hub.asked) == (loaded.path, [])


def test_what_the_hub_refuses(tiny_bundle, tiny, hub):
    damaged = {name: (tiny_bundle / name).read_bytes() for name in FILES if (tiny_bundle / name).is_file()}
    damaged["config.json"] += b" "
    hub.commit("owner/other", {"config.json": b"{}"})
    hub.commit("owner/damaged", damaged)
    assert code_of(lambda: tiny.push_to_hub("owner/refused", token="hf_wrong")) == "hub.failed"
    assert "owner/refused" not in hub.commits
    for name, code in (
        ("none", "hub.no_repository"),
        ("other", "hub.not_a_bundle"),
        ("damaged", "bundle.digest_mismatch"),
    ):
        assert code_of(partial(Tagger.from_pretrained, f"owner/{name}", revision="main")) == code


def bundle_of(folder) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}


def test_a_name_stands_for_the_main_branch_or_its_revision(tiny_bundle, hub):
    first = hub.commit("owner/name", bundle_of(tiny_bundle))
    hub.commit("owner/name", {"README.md": b"new"}, branch="next")
    second = hub.commit("owner/name", {"README.md": b"newer"})
    for name, revision, commit in (
        ("owner/name", None, second),
        (f"owner/name@{first}", None, first),
        ("owner/name", first, first),
        (f"owner/name@{first}", first, first),
    ):
        found = find_bundle(name, revision)
        assert (found.name, found.repository, found.commit) == (f"owner/name@{commit}", "owner/name", commit)
    assert (find_bundle("owner/name@next").path / "README.md").read_bytes() == b"new"
    assert load("owner/name").bundle.path == find_bundle("owner/name").path
    assert code_of(lambda: find_bundle("owner/name@next", "main")) == "hub.two_revisions"
    assert code_of(lambda: find_bundle("owner/name@nowhere")) == "hub.no_revision"
    assert code_of(lambda: find_encoder("owner/none")) == "hub.no_repository"


def test_a_folder_takes_precedence(tiny_bundle, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    shutil.copytree(tiny_bundle, tmp_path / "owner" / "name")
    found = find_bundle("owner/name")
    assert (str(found.path), found.name, found.commit) == ("owner/name", "owner/name", None)
    assert hub.asked == []


def test_without_the_hub_the_cache_is_used_or_named(tiny_bundle, hub, monkeypatch):
    commit = hub.commit("owner/name", bundle_of(tiny_bundle))
    hub.commit("owner/encoder", {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b""})
    hub.commit("owner/other", {})
    find_bundle("owner/name")
    find_encoder("owner/encoder", weights=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    assert find_bundle("owner/name").commit == find_bundle(f"owner/name@{commit}").commit == commit
    assert code_of(lambda: find_bundle("owner/other")) == "hub.not_cached"
    assert code_of(lambda: find_encoder("owner/encoder")) == "hub.not_cached"  # the weights are missing
    assert hub.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub.shutdown()
    hub.server_close()
    close_session()  # which keeps a connection
    assert find_bundle(f"owner/name@{commit}").commit == commit
    assert code_of(lambda: find_bundle("owner/other")) == "hub.not_reached"


def test_a_push_goes_to_its_branch(tiny_bundle, tiny, hub):
    hub.commit("owner/name", {"README.md": b"main"})
    for _ in range(2):
        commit = tiny.push_to_hub("owner/name", revision="trial", token=hubs.TOKEN)
    assert hub.commits["owner/name"]["trial"] == hub.commits["owner/name"][commit] == bundle_of(tiny_bundle)
    assert hub.commits["owner/name"]["main"] == {"README.md": b"main"}


_RUN = """
import json, sys
from spanmarker_core import Tagger
from spanmarker_core.errors import CoreError
for step, folder, repository, argument in json.loads(sys.argv[1]):
    try:
        if step == "push":
            said = Tagger.from_pretrained(folder).push_to_hub(repository, token=argument)
        else:
            bundle = Tagger.from_pretrained(repository, revision=argument).bundle
            said = [bundle.digest, sorted(path.name for path in bundle.path.iterdir())]
    except CoreError as error:
        said = str(error)
    print(json.dumps(said))
"""


def run(steps, server, home, **environment: str) -> list:
    """Take steps with the hub's client in a process of its own, which reads at its start where the hub is."""
    settings = {"HF_ENDPOINT": server.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(steps)],
        capture_output=True,
        text=True,
        env={**os.environ, "no_proxy": "*", **settings, **environment},
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.services
def test_pushed_and_loaded_again_in_processes(tiny_bundle, tmp_path):
    digest = read_info(tiny_bundle).digest
    bundle = {name: (tiny_bundle / name).read_bytes() for name in FILES if (tiny_bundle / name).is_file()}
    # A repository may hold anything; only a bundle's files are taken.
    others = {"pytorch_model.bin": b"pickle", "code.py": b"raise", "deep/config.json": b"{}"}
    with hubs.running() as server:
        server.commit("owner/old", others)
        new, old = run(
            [("push", str(tiny_bundle), name, hubs.TOKEN) for name in ("owner/new", "owner/old")], server, tmp_path
        )
        assert server.commits["owner/new"][new] == bundle
        assert server.commits["owner/old"][old] == bundle | others
        server.asked.clear()
        loaded, branch, none = run(
            [("load", "", "owner/old", old), ("load", "", "owner/new", "main"), ("load", "", "owner/none", "main")],
            server,
            tmp_path,
        )
        assert loaded == branch == [digest, sorted(bundle)]
        assert not [call for call in server.asked if call.endswith((".bin", ".py", "deep/config.json"))]
        assert none.startswith("[hub.no_repository] ")
        assert " owner/none " in none
        server.asked.clear()
        steps = [("load", "", "owner/old", old), ("load", "", "owner/none", "main")]
        cached, none = run(steps, server, tmp_path, HF_HUB_OFFLINE="1")
        assert cached == [digest, sorted(bundle)]
        assert none.startswith("[hub.not_cached]")
        assert server.asked == []
