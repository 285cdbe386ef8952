"""The terminal in the README: a true scan of the bundled example, as an SVG file that loads no fonts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

EXAMPLE = Path(__file__).parent.parent / "examples" / "cuda-training"
COMMAND = ("scan", ".", "--target", "npu")
WIDTH = 96
STYLES = (
    (r"^\$ .*", "bold"),
    (r"^Ready .*", "bold green"),
    (r"^(?:Programs?|Decisions|Fixes to read|Next):?", "bold"),
    (r"blocked by [^:;,]+|not judged", "red"),
    (r"runs? without [\w-]+|may need [^:;,]+|ready after decisions", "yellow"),
    (r"[\w/.-]+\.py(?::\d+)*", "cyan"),
    (r"\b[A-Z]{3}\d{3}(?:-[0-9a-f]{4})?\b", "magenta"),
    (r"silently wrong|(?<=  )error(?= |:)", "yellow"),
)


def scan_image() -> str:
    """Return the SVG of what a scan prints, up to the decisions."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "cuda-training"
        shutil.copytree(EXAMPLE, project)
        environment = {**os.environ, "TORCHFERRY_LANG": "en", "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "torchferry", *COMMAND]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    lines = [
        f"$ torchferry {' '.join(COMMAND)}",
        *done.stdout[: done.stdout.index("\nFixes to read")].splitlines(),
        "...",
    ]
    return image(lines, "scan")


def image(lines: list[str], name: str) -> str:
    """Return the SVG of a terminal with these lines; the name keeps the styles of two pictures on one page apart."""
    text = Text("\n".join(lines))
    for pattern, style in STYLES:
        text.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    console = Console(
        record=True, width=max(WIDTH, *map(len, lines)), file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text)
    # the fonts that rich names lie on a server; a picture in a README is shown without asking one
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="torchferry", code_format=plain, unique_id=name) + "\n"


def words_of(image: str) -> list[str]:
    """Return the words that an image shows; versions of rich may place them differently."""
    return "".join(re.findall(r">([^<>]*)</text>", image)).replace("&#160;", " ").split()
