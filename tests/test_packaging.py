"""The package as others get it: metadata, links, workflows and the versions named in them."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from flambeau.version import __version__

ROOT = Path(__file__).parent.parent
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = BUILD["project"]
README = (ROOT / "README.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_metadata_is_complete():
    expected = {"authors", "classifiers", "description", "keywords", "license", "readme"}
    assert expected <= PROJECT.keys()
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\(([^)]*)\)", README)
    relative = [each for each in targets if not each.startswith(("http", "#"))]
    assert relative
    assert all((ROOT / each.partition("#")[0]).exists() for each in relative)


def test_versions_agree():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert set(re.findall(r"flambeau-([0-9.]+)-py3", README)) == {__version__}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_complete(path):
    workflow = yaml.safe_load(path.read_text())
    # YAML reads the key `on` as True.
    assert {"name", True, "permissions", "jobs"} <= workflow.keys()
    for job in workflow["jobs"].values():
        assert "runs-on" in job
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= workflow["jobs"].keys()
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        assert not any("@" not in step.get("uses", "@") for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_what_exists(path):
    text = path.read_text()
    targets = re.findall(r"\bmake ([a-z]+)$", text, re.MULTILINE)
    if "make ${{ matrix.target }}" in text:
        targets += re.search(r"target: \[(.*)\]", text)[1].split(", ")
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{each}:", makefile, re.MULTILINE) for each in targets)
    groups = re.findall(r"--group (\w+)", text)
    assert set(groups) <= BUILD["dependency-groups"].keys()
    for module in re.findall(r"python -m (tests\.[\w.]+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()


def test_targets_name_groups_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = ",".join(re.findall(r"\.groups-([a-z,]+)", makefile)).split(",")
    assert set(named) <= BUILD["dependency-groups"].keys()
    assert len(set(named)) > 5


def test_only_the_package_is_in_the_wheel():
    assert BUILD["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["flambeau"]}
    assert (ROOT / "flambeau" / "py.typed").exists()
