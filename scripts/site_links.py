# SPDX-License-Identifier: Apache-2.0
"""A hook of mkdocs: links to what is in the repository, but not on the site, become the name of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The page's text; a link to nowhere stays, for mkdocs to complain of."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def outside(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists() or not target.is_relative_to(ROOT):
            return link[0]
        path = str(target.relative_to(ROOT))
        label = link[1].strip("`")
        return f"`{path}`" if path.endswith(label) else f"{link[1]} (`{path}`)"

    return LINK.sub(outside, markdown)
