# SPDX-License-Identifier: Apache-2.0
"""A hook of mkdocs: links to what is in the repository, but not on the site, go to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:
    """The page's text; a link to nowhere stays, for mkdocs to complain of."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def outside(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists() or not target.is_relative_to(ROOT):
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"[{link[1]}]({config.repo_url}/{kind}/main/{target.relative_to(ROOT)})"

    return LINK.sub(outside, markdown)
