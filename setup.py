# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml cannot say: the version is the Rust workspace's, and a wheel may carry the Rust programs.

With NARROWS_WHEEL_PROGRAMS=target/dist a wheel has the programs of that directory, which go where `narrows` goes, and
a tag of the machine and of the C library that they were linked with: pip refuses it where they would not start.
"""

import os
import platform
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

CARGO = tomllib.loads((Path(__file__).parent / "Cargo.toml").read_text(encoding="utf-8"))
PROGRAMS = [
    os.path.relpath(Path(directory, name), Path(__file__).parent)
    for directory in filter(None, [os.environ.get("NARROWS_WHEEL_PROGRAMS")])
    for name in ("narrows-softswitch", "narrows-collector")
]


class Wheel(bdist_wheel):
    """A wheel of this kind of machine, for any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """The Python, ABI and platform that it is for."""
        glibc = platform.libc_ver()[1].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{platform.machine()}"


setup(
    version=CARGO["workspace"]["package"]["version"],
    data_files=[("bin", PROGRAMS)] if PROGRAMS else [],
    cmdclass={"bdist_wheel": Wheel} if PROGRAMS else {},
)
