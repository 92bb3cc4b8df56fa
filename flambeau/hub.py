"""Models from repositories with a ``hubconf.py``, and cached downloads of weights.

The cache directory is PyTorch's, so existing files are used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib import util as importlib_util
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from flambeau._absent import Absent as _Absent
from flambeau.checkpoint.atomic import atomic_write
from flambeau.checkpoint.errors import CheckpointError, RefusedContentError
from flambeau.checkpoint.io import load as _load_file
from flambeau.checkpoint.limits import Limits
from flambeau.core.support.settings import setting
from flambeau.core.support.tracebacks import trimmed


class _NoBar:
    """A progress bar without output, for when the package tqdm is not installed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept tqdm's arguments."""

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def _progress_bar() -> Any:
    try:
        return import_module("tqdm").tqdm
    except ImportError:
        return _NoBar


tqdm: Any = _progress_bar()

__all__ = [
    "HASH_REGEX", "READ_DATA_CHUNK", "HTTPError", "URLError", "download_url_to_file", "get_dir",
    "help", "list", "load", "load_state_dict_from_url", "set_dir", "tqdm", "urlparse",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)

#: Matches the beginning of a SHA-256 in a file's name, as in ``resnet18-f37072fd.pth``.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
#: The number of bytes of each read.
READ_DATA_CHUNK = 1 << 17
_HUBCONF = "hubconf.py"
_TRUSTED_OWNERS = ("facebookincubator", "facebookresearch", "fairinternal", "pytorch")
_chosen_folder: str | None = None
_listed = list


# The cache directory


@setting
def get_dir() -> str:
    """The folder of downloads.

    It is the argument of `set_dir`, or else ``$TORCH_HOME/hub``, ``$XDG_CACHE_HOME/torch/hub``, or
    ``~/.cache/torch/hub``.
    """
    return _chosen_folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloads for this process."""
    global _chosen_folder
    _chosen_folder = os.path.expanduser(os.fspath(d))


def _get_torch_home() -> str:
    """The parent folder of the default `get_dir`."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


# Files


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file; ``dst`` is replaced atomically.

    Args:
        url: Its address, which may use the ``file:`` scheme.
        dst: The local path.
        hash_prefix: The beginning of its SHA-256, in hexadecimal digits.
        progress: Whether to show progress, for which the package tqdm must be installed.

    Raises:
        URLError: The download fails; the message names the address and the path.
        RuntimeError: The hash differs.
    """
    with _opened(url, dst) as response, atomic_write(os.path.expanduser(dst)) as file:
        length = response.headers.get("Content-Length")
        digest = hashlib.sha256()
        with tqdm(
            total=None if length is None else int(length), disable=not progress,
            unit="B", unit_scale=True, unit_divisor=1024,
        ) as bar:  # fmt: skip
            while chunk := response.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{found}") of {url}; it was '
                "changed on its way, or is another file by now"
            )


def _opened(url: str, dst: str) -> Any:
    """The response of a server, or an error that names the expected path of the file."""
    try:
        return urlopen(Request(url, headers={"User-Agent": "flambeau.hub"}))
    except HTTPError as error:
        error.add_note(f"{url} was to be kept as {dst}")
        raise
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise URLError(
            f"{url} cannot be downloaded ({reason}); without a network, put the file at {dst}"
        ) from error


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load a file written by `save`, downloading it unless it is cached.

    Args:
        url: Its address.
        model_dir: The cache folder; by default ``checkpoints`` in `get_dir`.
        map_location: See `load`.
        progress: Whether to show progress.
        check_hash: Whether to compare the SHA-256 prefix in the file's name, as in
            ``resnet18-f37072fd.pth``, after the download.
        file_name: The local name of the file; by default the one in the address.
        weights_only: See `load`. With ``False`` **the file may run code**.

    Raises:
        URLError: It is not cached and the download fails; the message names the address and the
            path.
        CheckpointError: See `load`; or an archive of one file inflates to too much.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress=progress)
    if not _holds_one_file(path):
        return _load_file(path, map_location, weights_only=weights_only)
    # In a temporary folder, since the cache may have a file of the member's name.
    with tempfile.TemporaryDirectory(dir=folder) as work:
        _unpack(path, work)
        [name] = (each for each in Path(work).rglob("*") if each.is_file())
        return _load_file(name, map_location, weights_only=weights_only)


def _holds_one_file(path: str) -> bool:
    """Whether a file is an archive of one file, and was not written by `save`."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    return len(members) == 1 and not members[0].is_dir()


def _unpack(path: str, folder: str) -> None:
    """Unpack an archive.

    Raises:
        LimitExceededError: It inflates to more than `Limits` allow a file of its size.
        RefusedContentError: Two entries have one path, or one lies outside of the folder.
    """
    budget = Limits().budget(os.path.getsize(path))
    seen: set[str] = set()
    with zipfile.ZipFile(path) as archive:
        try:
            for each in archive.infolist():
                budget.take(each.file_size, f"its entry {each.filename!r:.80}")
                name = os.path.normpath(each.filename)
                if os.path.isabs(name) or name.split(os.sep)[0] == ".." or name in seen:
                    raise RefusedContentError(
                        f"its entry {each.filename!r:.80} has the path of another, or lies outside"
                    )
                seen.add(name)
        except CheckpointError as error:
            error.file = repr(path)
            raise
        # The size of a member is declared in its header.
        archive.extractall(folder)


# Repositories


@trimmed
def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of a repository's ``hubconf.py``, which usually returns a model.

    Args:
        repo_or_dir: A repository on GitHub, ``"owner/name"`` or ``"owner/name:branch"``, or a
            folder.
        model: The name of the function.
        *args: Positional arguments of the function.
        source: ``"github"`` or ``"local"``.
        trust_repo: Whether to run the repository's code: ``True``, ``False`` to ask on first use,
            ``None`` to warn, or ``"check"`` to ask unless its owner is trusted.
        force_reload: Whether to download a repository that is cached.
        verbose: Whether to report the use of a cached repository.
        skip_validation: Accepted for compatibility; GitHub is not asked for its branches.
        **kwargs: Keyword arguments of the function.

    Raises:
        ValueError: There is no such source.
        RuntimeError: There is no such function, a package that the repository needs is missing,
            or the repository is not trusted.
        URLError: The repository is not cached and the download fails.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f"Unknown source: {source!r}; give 'github' or 'local'")
    folder = repo_or_dir
    if source == "github":
        folder = _repository(repo_or_dir, trust_repo, force_reload, verbose)
    with _imported(folder) as hubconf:
        return _entry(hubconf, model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> _listed[str]:
    """The names of the functions in the ``hubconf.py`` of a repository; see `load`."""
    with _imported(_repository(github, trust_repo, force_reload, verbose)) as hubconf:
        members = vars(hubconf).items()
        return [name for name, each in members if callable(each) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> str | None:
    """The docstring of a function in the ``hubconf.py`` of a repository; see `load`."""
    with _imported(_repository(github, trust_repo, force_reload, True)) as hubconf:
        return _entry(hubconf, model).__doc__


@contextlib.contextmanager
def _imported(folder: str) -> Iterator[Any]:
    """The module ``hubconf.py`` of a folder, which may import its sibling modules."""
    path = os.path.join(folder, _HUBCONF)
    sys.path.insert(0, folder)
    try:
        spec = importlib_util.spec_from_file_location(_HUBCONF, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib_util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry(hubconf: Any, model: str) -> Any:
    if not isinstance(model, str):
        raise ValueError(f"expected the name of a function in hubconf.py, got {model!r}")
    missing = [
        name
        for name in getattr(hubconf, "dependencies", [])
        if name != "torch" and importlib_util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}; install them")
    found = getattr(hubconf, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def _repository(github: str, trust_repo: Any, force_reload: bool, verbose: bool) -> str:
    """The folder of a GitHub repository, downloaded unless it is cached."""
    owner, name, branch = _parts_of(github)
    branches = ["main", "master"] if branch is None else [branch]
    root = get_dir()
    os.makedirs(root, exist_ok=True)
    _check_trust(owner, name, trust_repo)
    folders = {
        each: os.path.join(root, "_".join([owner, name, each.replace("/", "_")]))
        for each in branches
    }
    if not force_reload:
        for folder in folders.values():
            if os.path.exists(folder):
                if verbose:
                    sys.stderr.write(f"Using cache found in {folder}\n")
                return folder
    for each in branches[:-1]:
        with contextlib.suppress(HTTPError):
            return _download_repository(owner, name, each, folders[each])
    return _download_repository(owner, name, branches[-1], folders[branches[-1]])


def _parts_of(github: str) -> tuple[str, str, str | None]:
    """The owner, the name and the branch in ``"owner/name:branch"``."""
    repository, _, branch = github.partition(":")
    owner, slash, name = repository.partition("/")
    if not (owner and slash and name) or "/" in name:
        raise ValueError(f"expected a repository such as 'owner/name:branch', got {github!r}")
    return owner, name, branch or None


def _download_repository(owner: str, name: str, branch: str, folder: str) -> str:
    address = f"https://github.com/{owner}/{name}/zipball/{branch}"
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as work:
        packed, content = os.path.join(work, "packed.zip"), os.path.join(work, "content")
        sys.stderr.write(f'Downloading: "{address}" to {folder}\n')
        try:
            download_url_to_file(address, packed, progress=False)
        except HTTPError:
            raise
        except URLError as error:
            raise URLError(str(error.reason).replace(packed, folder)) from error
        _unpack(packed, content)
        [inside] = os.listdir(content)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(os.path.join(content, inside), folder)
    return folder


def _check_trust(owner: str, name: str, trust_repo: Any) -> None:
    """Ask whether to run a repository's code, unless it is trusted."""
    listed = Path(get_dir()) / "trusted_list"
    trusted = listed.read_text().split() if listed.exists() else []
    key = f"{owner}_{name}"
    is_known = key in trusted or (trust_repo == "check" and owner in _TRUSTED_OWNERS)
    if is_known:
        return
    if trust_repo is None:
        sys.stderr.write(f"running code of {owner}/{name}, which has not been run here before\n")
        return
    if trust_repo is not True:
        answer = input(f"Run the code of {owner}/{name}, which was not run here before? (y/N) ")
        if answer.strip().lower() not in ("y", "yes"):
            raise RuntimeError(f"the repository {owner}/{name} is not trusted, so it is not run")
    with listed.open("a") as file:
        file.write(f"{key}\n")
