# SPDX-License-Identifier: Apache-2.0
"""What a release is made of: one version, wheels, and continuous integration that names what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from documented import ROOT
from narrows import __version__
from script_modules import load_script

PACKAGED = (
    "control_plane/narrows", "control_plane/narrows_tofino", "analysis/narrows_analysis", "analysis/narrows_formats",
    "studies/narrows_studies", "p4src/compiled", "deploy", "suites", "README.md", "LICENSE", "MANIFEST.in",
    "Cargo.toml", "pyproject.toml", "setup.py",
)  # fmt: skip
PROGRAMS = {"narrows-softswitch", "narrows-collector"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a wheel is made from, without what earlier builds left."""
    for name in PACKAGED:
        target = tmp_path / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    return tmp_path / "checkout"


def wheel(checkout: Path, programs: Path | None) -> zipfile.ZipFile:
    """The wheel of a checkout, without a network."""
    out = checkout / "dist"
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), "."]
    environment = {} if programs is None else {"NARROWS_WHEEL_PROGRAMS": str(programs)}
    subprocess.run(words, cwd=checkout, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin", **environment})
    (found,) = out.glob("*.whl")
    return zipfile.ZipFile(found)


def test_the_version_is_in_one_place() -> None:
    """Cargo.toml's; what cannot read it agrees."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    released = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (__version__, citation["version"], released[0]) == (cargo, cargo, cargo)


def test_every_crate_is_content_with_the_oldest_compiler() -> None:
    """The Rust that README and install.md ask for, which is that of Debian 13, compiles all that Cargo.lock names."""
    oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    words = ["cargo", "metadata", "--format-version=1", "--locked", "--offline"]
    words += ["--filter-platform=x86_64-unknown-linux-gnu"]
    packages = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]

    def version(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")[:2]))

    asked = {f"{one['name']} {one['version']}": one["rust_version"] for one in packages if one["rust_version"]}
    assert len(asked) > 50
    assert {name: rust for name, rust in asked.items() if version(rust) > version(oldest)} == {}
    for page in ("README.md", "docs/install.md"):
        assert f"Rust {oldest} or newer" in (ROOT / page).read_text()


def test_the_repository_is_named_alike() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (site,) = re.findall("^repo_url: (.*)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert citation["repository-code"] == site == urls["Repository"]
    assert all(url.startswith(site) for url in urls.values())


@pytest.mark.long
def test_a_wheel_has_what_the_package_reads(checkout: Path) -> None:
    built = wheel(checkout, None)
    assert Path(str(built.filename)).name == f"narrows-{__version__}-py3-none-any.whl"
    names = set(built.namelist())
    for package in ("narrows", "narrows_analysis", "narrows_formats", "narrows_studies", "narrows_tofino"):
        assert f"{package}/py.typed" in names
    for path in (ROOT / "p4src" / "compiled" / "v1model").iterdir():
        assert f"narrows/data/p4/v1model/{path.name}" in names
    for path in (ROOT / "suites").glob("*/*"):
        assert f"narrows/data/suites/{path.relative_to(ROOT / 'suites')}" in names


@pytest.mark.long
def test_a_wheel_with_programs_is_of_one_kind_of_machine(checkout: Path) -> None:
    """pip installs it where they start, and as programs."""
    for name in PROGRAMS:
        (checkout / name).write_bytes(b"\x7fELF\xff")
        (checkout / name).chmod(0o755)
    built = wheel(checkout, checkout)
    assert re.search(r"-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$", str(built.filename))
    inside = {Path(one.filename).name: one for one in built.infolist() if ".data/data/bin/" in one.filename}
    assert inside.keys() == PROGRAMS
    assert all(one.external_attr >> 16 & 0o111 == 0o111 for one in inside.values())


def test_components_are_those_of_the_locked_files() -> None:
    """Each crate of others and each Python package once, by the name that registries have for it."""
    release = load_script(ROOT / "scripts" / "release.py")
    made = release.components()
    assert (made["bomFormat"], made["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    names = [one["purl"] for one in made["components"]]
    crates = re.findall(r'^name = "(.*)"\nversion = "(.*)"\nsource', (ROOT / "Cargo.lock").read_text(), re.MULTILINE)
    lines = (ROOT / "requirements" / "run.txt").read_text().splitlines()
    packages = [line.split()[0].partition(";")[0] for line in lines if re.match("[a-z]", line)]
    wanted = [f"pkg:cargo/{name}@{version}" for name, version in crates]
    wanted += [f"pkg:pypi/{package.replace('==', '@')}" for package in packages]
    assert len(crates) > 100 and len(packages) > 10
    assert sorted(names) == sorted(wanted)
    assert all(len(one["hashes"][0]["content"]) == 64 for one in made["components"] if "cargo" in one["purl"])


def test_workflows_and_hooks_call_what_there_is() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    texts += [(ROOT / name).read_text() for name in ("deploy/Containerfile", ".devcontainer/devcontainer.json")]
    text = "\n".join(texts)
    made = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", text))
    assert {"check", "demo", "docs", "kernel"} <= made <= targets | {"python3-venv"}
    called = set(re.findall(r"(?:scripts|\.ci)/[a-z.-]*[a-z]", text))
    assert called
    assert all((ROOT / name).exists() for name in called)
