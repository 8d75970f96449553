# SPDX-License-Identifier: Apache-2.0
"""A hook of mkdocs: the page of commands, made from the program, and that of matrices, made from docs/matrices."""

from __future__ import annotations

import re
from typing import Any

import commands
import matrices
from mkdocs.structure.files import File

PAGES = {"commands.md": commands.page, "matrices.md": matrices.page}
# The tree has a folder for each suite, the site a part of the page.
KEPT = re.compile(r"\]\(((?:\.\./)*matrices)(?:/([\w-]+))?\)")


def on_files(files: Any, config: Any, **_: object) -> Any:
    """The site's files, with both pages."""
    for name, page in PAGES.items():
        files.append(File.generated(config, name, content=page()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """A page's text, whose links to docs/matrices go to the page that is made of it."""
    return KEPT.sub(lambda link: f"]({link[1]}.md{'#' + link[2] if link[2] else ''})", markdown)
