"""Hooks of the documentation site: pages and files that lie outside docs/ take part, and links to them hold.

The README is the first page of each language. Any other file of the project that a page links to is copied to
`project/` of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
HOME = {"README.md": "index.md", "README.zh-CN.md": "zh/index.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to outside docs/."""
    waiting = [ROOT / name for name in HOME] + [Path(str(page.abs_src_path)) for page in files.documentation_pages()]
    added: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if not source.is_relative_to(ROOT / "docs") and source not in added:
            added.add(source)
            files.append(File.generated(config, _place(source), abs_src_path=str(source)))
        if source.suffix == ".md":
            linked = (source.parent.joinpath(link).resolve() for link in LINK.findall(source.read_text("utf-8")))
            waiting += [path for path in linked if _is_outside(path) and path not in added]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the project into links between pages of the site."""
    source = Path(str(page.file.abs_src_path))
    here = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = source.parent.joinpath(link[0]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]  # mkdocs reports it
        return posixpath.relpath(_place(target), here or ".")

    return LINK.sub(moved, markdown)


def _is_outside(path: Path) -> bool:
    return path.is_file() and path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")


def _place(path: Path) -> str:
    """Return where a file of the project lies on the site."""
    name = path.relative_to(ROOT).as_posix()
    # mkdocs leaves out files whose name begins with a dot
    return HOME.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else f"project/{name.lstrip('.')}")
