"""Repositories with a hubconf.py, and files that are downloaded once."""

import hashlib
import io
import urllib.request
import zipfile
from urllib.error import URLError

import pytest

import flambeau
from flambeau import hub
from flambeau.checkpoint import LimitExceededError, RefusedContentError
from flambeau.utils import model_zoo

HUBCONF = '''
from flambeau import nn
from parts_of_this_repository import width

dependencies = ["flambeau"]


def net(outputs=2):
    """A linear layer."""
    return nn.Linear(width(), outputs)


def _hidden():
    pass
'''


@pytest.fixture
def folder(tmp_path):
    """A folder for what is downloaded, and none of the user's."""
    before = hub._chosen_folder
    hub.set_dir(tmp_path / "hub")
    yield tmp_path / "hub"
    hub._chosen_folder = before


def write_repository(where, text=HUBCONF):
    where.mkdir(parents=True)
    (where / "hubconf.py").write_text(text)
    (where / "parts_of_this_repository.py").write_text("def width():\n    return 3\n")


def test_the_folder_is_pytorchs(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_chosen_folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "torch" / "hub")


def test_a_folder_is_loaded_from(tmp_path):
    write_repository(tmp_path / "repository")
    net = hub.load(str(tmp_path / "repository"), "net", source="local", outputs=4)
    assert net.weight.shape == (4, 3)
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(str(tmp_path / "repository"), "other", source="local")
    with pytest.raises(ValueError, match="Unknown source: 'disk'"):
        hub.load(str(tmp_path / "repository"), "net", source="disk")


def test_what_a_repository_needs_is_named(tmp_path):
    write_repository(tmp_path / "repository", 'dependencies = ["nothing_of_this_name"]\n')
    with pytest.raises(RuntimeError, match="Missing dependencies: nothing_of_this_name"):
        hub.load(str(tmp_path / "repository"), "net", source="local")


def test_a_repository_that_is_there_is_used(folder, capsys, monkeypatch):
    write_repository(folder / "owner_name_main")
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert hub.list("owner/name") == ["width", "net"]
    assert capsys.readouterr().err == f"Using cache found in {folder / 'owner_name_main'}\n"
    assert hub.help("owner/name", "net") == "A linear layer."
    assert hub.load("owner/name", "net", verbose=False).in_features == 3
    # It was asked for once.
    assert (folder / "trusted_list").read_text() == "owner_name\n"


def test_a_repository_that_is_not_trusted_is_not_run(folder, monkeypatch):
    write_repository(folder / "owner_name_v1_2", "raise AssertionError\n")
    monkeypatch.setattr("builtins.input", lambda question: "")
    with pytest.raises(RuntimeError, match="owner/name is not trusted"):
        hub.load("owner/name:v1/2", "net")
    with pytest.raises(ValueError, match="'owner/name:branch', got 'name'"):
        hub.load("name", "net")


def test_a_repository_is_downloaded(folder, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("owner-name-123/hubconf.py", "def net():\n    return 5\n")
    asked = []

    def opened(url, dst):
        asked.append(url)
        response = io.BytesIO(packed.getvalue())
        response.headers = {}
        return response

    monkeypatch.setattr(hub, "_opened", opened)
    assert hub.load("owner/name:dev", "net", trust_repo=True) == 5
    assert hub.load("owner/name:dev", "net") == 5
    assert asked == ["https://github.com/owner/name/zipball/dev"]
    assert [each.name for each in (folder / "owner_name_dev").iterdir()] == ["hubconf.py"]


def test_weights_are_downloaded_once(folder, tmp_path):
    content = io.BytesIO()
    flambeau.save({"weight": flambeau.ones(2)}, content)
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    served = tmp_path / f"net-{digest[:8]}.pth"
    served.write_bytes(content.getvalue())
    for _ in range(2):
        found = hub.load_state_dict_from_url(served.as_uri(), progress=False, check_hash=True)
        assert found["weight"].tolist() == [1, 1]
        served.unlink(missing_ok=True)
    assert (folder / "checkpoints" / served.name).exists()
    assert model_zoo.load_url is hub.load_state_dict_from_url


def test_weights_that_were_changed_are_refused(folder, tmp_path):
    served = tmp_path / "net-00000000.pth"
    served.write_bytes(b"other")
    with pytest.raises(RuntimeError, match=r'invalid hash value \(expected "00000000"'):
        hub.load_state_dict_from_url(served.as_uri(), progress=False, check_hash=True)
    assert list((folder / "checkpoints").iterdir()) == []


def test_without_a_network_the_error_says_where_to_put_the_file(folder, monkeypatch):
    def offline(request):
        raise URLError("Name or service not known")

    monkeypatch.setattr(hub, "urlopen", offline)
    with pytest.raises(URLError, match=r"https://example\.org/net\.pth cannot be") as error:
        hub.load_state_dict_from_url("https://example.org/net.pth")
    assert str(folder / "checkpoints" / "net.pth") in str(error.value)
    with pytest.raises(URLError, match="owner/name/zipball/dev") as error:
        hub.load("owner/name:dev", "net", trust_repo=True)
    assert str(folder / "owner_name_dev") in str(error.value)


def test_an_archive_of_one_file_is_unpacked(folder, tmp_path):
    content = io.BytesIO()
    flambeau.save({"weight": flambeau.ones(2)}, content)
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        archive.writestr("net.pth", content.getvalue())
    found = hub.load_state_dict_from_url((tmp_path / "net.zip").as_uri(), progress=False)
    assert found["weight"].tolist() == [1, 1]


def packed(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_an_archive_leaves_its_neighbours_as_they_are(folder, tmp_path):
    content = io.BytesIO()
    flambeau.save({"weight": flambeau.ones(2)}, content)
    neighbour = folder / "checkpoints" / "other.pth"
    neighbour.parent.mkdir(parents=True)
    neighbour.write_bytes(b"kept")
    served = packed(tmp_path / "net.zip", ("other.pth", content.getvalue()))
    found = hub.load_state_dict_from_url(served.as_uri(), progress=False)
    assert found["weight"].tolist() == [1, 1]
    assert neighbour.read_bytes() == b"kept"
    assert sorted(each.name for each in neighbour.parent.iterdir()) == ["net.zip", "other.pth"]


def test_an_archive_that_inflates_to_too_much_is_refused(folder, tmp_path):
    huge = packed(tmp_path / "net.zip", ("net.pth", b"\0" * (130 << 20)))
    with pytest.raises(LimitExceededError, match=r"net\.zip.*its entry 'net\.pth' takes"):
        hub.load_state_dict_from_url(huge.as_uri(), progress=False)
    assert [each.name for each in (folder / "checkpoints").iterdir()] == ["net.zip"]


def test_a_repositorys_entries_have_paths_of_their_own(folder, tmp_path, monkeypatch):
    for second in ("top/../top/hubconf.py", "../hubconf.py", "/hubconf.py"):
        served = packed(tmp_path / "repo.zip", ("top/hubconf.py", ""), (second, "raise SystemExit"))
        monkeypatch.setattr(hub, "_opened", lambda *_, s=served: urllib.request.urlopen(s.as_uri()))
        with pytest.raises(RefusedContentError, match=r"has the path of another, or lies outside"):
            hub.load("owner/name:dev", "net", trust_repo=True)
        assert not (folder / "owner_name_dev").exists()
