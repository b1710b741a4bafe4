"""A hook of mkdocs: pages of the repository's root belong to the site too, by other names."""

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK: Final = re.compile(r"\]\((?!https?:)([^)#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them; whether their links lead anywhere is then mkdocs's to say."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(_moved, text)))
    return files


def _moved(link: re.Match[str]) -> str:
    target = link[1]
    return f"]({PAGES.get(target, target.removeprefix('docs/'))}"
