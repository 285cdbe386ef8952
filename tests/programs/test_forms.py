"""What Python does with a small program, beside its verdict: a truth value in many forms decides whether it dies.

Each source of a value is brought to a condition by one carrier, and each carrier gets a literal. The programs are run
here, without flash-attn. A verdict that is good where the program dies is wrong whatever else holds, and so is one of
"blocked" where it ends; "may need" says that the files do not tell.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import cycle
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs.small import judged
from torchferry.programs.model import Verdict

FORMS = Path(__file__).parent / "forms"

STRICT = frozenset({"range", "raise", "decorator", "importlib"})
"""Carriers by which a program is called blocked that does not come to it: what they do is not followed."""


def forms(name: str) -> Iterator[tuple[str, str]]:
    """Yield the headlines and texts of one file of forms."""
    for part in (FORMS / name).read_text(encoding="utf-8").split("\n## ")[1:]:
        headline, _, text = part.partition("\n")
        yield headline, text.rstrip("\n") + "\n"


HEADLINES = [(headline.partition(" => "), text) for headline, text in forms("sources.txt")]
SOURCES = {name: (text, value) for (name, _, value), text in HEADLINES}
CARRIERS = dict(forms("carriers.txt"))
DECIDED = [name for name in CARRIERS if name not in STRICT and not name.endswith("?")]
PAIRS = [*zip(SOURCES, cycle(DECIDED), strict=False), *(("literal", carrier) for carrier in CARRIERS)]


def dies(text: str, conf: str) -> bool:
    """Run a program, and return whether it ends since there is no flash-attn."""
    modules = {name: ModuleType(name) for name in ("conf", "train")}
    exec(conf, modules["conf"].__dict__)
    before = {name: sys.modules.pop(name, None) for name in (*modules, "flash_attn")}
    sys.modules |= modules
    sys.modules["flash_attn"] = None  # type: ignore[assignment]
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(text, "train.py", "exec"), modules["train"].__dict__)
    except ModuleNotFoundError as error:
        return error.name == "flash_attn"
    except SystemExit:
        return False
    finally:
        for name, kept in before.items():
            del sys.modules[name]
            if kept is not None:
                sys.modules[name] = kept
    return False


@pytest.mark.parametrize(("source", "carrier"), PAIRS)
def test_the_verdict_never_contradicts_what_python_does(
    source: str, carrier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = SOURCES[source]
    monkeypatch.setenv("FORMS_FLAG", "")  # some of them set it
    for truth in ("True", "False"):
        monkeypatch.delenv("FORMS_FLAG", raising=False)
        program = text.replace("{b}", truth) + CARRIERS[carrier].replace("{v}", value.replace("{b}", truth))
        conf = f"FLAG = {truth}\n\n\ndef get():\n    return FLAG\n"
        files = {"train.py": program, **({"conf.py": conf} if "conf" in program else {})}
        verdict = judged(tmp_path / truth, files)["train.py"].verdict
        right = {True: Verdict.BLOCKED, False: Verdict.WITHOUT}[dies(program, conf)]
        if "?" in source + carrier:
            assert verdict in (right, Verdict.MAY_NEED)
        else:
            assert verdict is right or (carrier in STRICT and verdict is Verdict.BLOCKED)
