"""The porting class of a vendor's recipes, with its arguments: such a recipe changes one import.

It does what `torchferry.kernels.port` does. Rules that change more than names are not applied, and are named on
standard error; the output is never deleted.

    python -m torchferry.kernels.simple_porting --cuda-dir-path csrc --mapping-rule '{"WITH_CUDA":"WITH_X"}'
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.kernel_table import kernel_table
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.terminal import print_error, print_notice
from torchferry.kernels import port
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.rules import RuleVerdict, read_rules

_REFERENCE = "general.json"
"""The file of a folder of mappings that the vendors' tool does not read."""


class SimplePorting:
    """Ports a folder of CUDA C++ to the folder beside it whose name ends in the device.

    Args:
        cuda_dir_path: The folder.
        ignore_dir_paths: Folders to leave out, each with all below it: a list, or JSON of one.
        mapping_rule: Own rules, by what they replace: a dictionary, or JSON of one.
        drop_default_mapping: Whether the own rules alone are applied.
        mapping_dir_path: A folder of JSON files with further rules.
        target: Where to; by default the target whose compiler takes CUDA's syntax.
    """

    def __init__(
        self,
        cuda_dir_path: str | os.PathLike[str] = "cuda/",
        ignore_dir_paths: Iterable[str] | str | None = None,
        mapping_rule: Mapping[str, str] | str | None = None,
        drop_default_mapping: bool = False,
        mapping_dir_path: str | os.PathLike[str] | None = None,
        target: str = "",
    ) -> None:
        self.cuda_dir_path = Path(cuda_dir_path)
        ignored = ignore_dir_paths
        if isinstance(ignored, str):
            ignored = _parsed(ignored, "ignore_dir_paths")  # type: ignore[assignment]
        self.ignore_dir_paths = tuple(map(str, ignored or ()))
        rules = _parsed(mapping_rule, "mapping_rule") if isinstance(mapping_rule, str) else mapping_rule or {}
        if not isinstance(rules, Mapping) or not all(isinstance(text, str) for pair in rules.items() for text in pair):
            raise UsageError(say("{name} is not a JSON object that maps strings to strings", name="mapping_rule"))
        self.mapping_rule = dict(rules)
        if mapping_dir_path is not None:
            for file in sorted(Path(mapping_dir_path).glob("*.json")):
                if file.name != _REFERENCE:
                    self.mapping_rule |= read_rules(file)
        self.drop_default_mapping = drop_default_mapping
        self.target = target or _target()

    def _is_there(self, path: str) -> bool:
        """Whether a path that is to be left out exists, relative to the current folder or to the one that is ported."""
        return os.path.lexists(path) or os.path.lexists(self.cuda_dir_path / path)

    def run(self) -> PortedTree:
        """Port the folder and return what was done; raises what `port` does."""
        absent = [path for path in self.ignore_dir_paths if not self._is_there(path)]
        for path in absent:
            print_notice(say("`{path}` is not there, and nothing is left out for it", path=path).render())
        ported = port(
            self.cuda_dir_path,
            self.target,
            ignore=[path for path in self.ignore_dir_paths if path not in absent],
            rules=self.mapping_rule,
            drop_default_map=self.drop_default_mapping,
        )
        for rule in ported.rules.rules:
            if rule.verdict in (RuleVerdict.UNSAFE, RuleVerdict.NAMES_ONLY):
                text = say(
                    "not applied: `{name}` -> `{use}`: {reason}", name=rule.name, use=rule.use, reason=rule.reason
                )
                print_notice(text.render())
        return ported


def _parsed(text: str, name: str) -> object:
    try:
        return parsed_json(text)
    except ValueError as error:
        raise UsageError(say("{name} is not JSON: {error}", name=name, error=error)) from None


def _target() -> str:
    """Return the target whose compiler takes CUDA's syntax."""
    for name in registry.built_in():
        table = kernel_table(registry.load(name))
        if table is not None and table.takes_cuda_syntax:
            return name
    raise UsageError(say("no target takes CUDA's syntax"))


def main(arguments: list[str] | None = None) -> int:
    """Run with the arguments of the vendors' tool; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m torchferry.kernels.simple_porting")
    parser.add_argument("--cuda-dir-path", default="cuda/")
    parser.add_argument("--ignore-dir-paths", default="[]")
    parser.add_argument("--mapping-rule", default="{}")
    parser.add_argument("--drop-default-mapping", action="store_true")
    parser.add_argument("--mapping-dir-path", default=None)
    chosen = parser.parse_args(arguments)
    try:
        SimplePorting(**vars(chosen)).run()
    except TorchferryError as error:
        print_error(error.lines())
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
