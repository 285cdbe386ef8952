"""What keeps judging cheap changes no verdict: questions to texts, what is remembered, and what is forgotten."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.small import BUILT, Files, judged, small
from torchferry.backends.target import Target
from torchferry.programs.call_paths import path_search
from torchferry.programs.call_paths.search_state import Search, SearchState
from torchferry.programs.entry_points.finder import may_call_starter
from torchferry.programs.imports import sources
from torchferry.programs.imports.settings_classes import _COMMENT, _NAME, dotted_names
from torchferry.programs.model import Reachability, Verdict
from torchferry.programs.options.switches import may_define
from torchferry.programs.references import uses
from torchferry.programs.syntax.identifier_index import IdentifierIndex, words_of
from torchferry.programs.verdicts.file_facts import FACTS_FOR_JUDGING
from torchferry.programs.verdicts.judging import judge
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.rules.words import names_in
from torchferry.source import project
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText, is_plain
from torchferry.source.tree import list_files


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("as_attribute", "model.load()", True),
        ("as_attribute", "model. load()", True),
        ("as_attribute", "(model\n    .load())", True),
        ("as_attribute", "(model.  # the first\n  load())", True),
        ("as_attribute", "model.loads()", False),
        ("as_attribute", "def load(): pass", False),
        ("as_base", "class Other(load):\n    x = 1", True),
        ("as_base", "class Other(\n    package.load, metaclass=Meta\n):\n    x = 1", True),
        ("as_base", "class load(Other):\n    x = load", False),
        ("as_base", "class Other:\n    x = f(load)", False),
        ("as_call", "x = load(1)", True),
        ("as_call", "x.load(1)", True),
        ("as_call", "def load(x): pass", False),
        ("as_call", "class load(Base): pass", False),
        ("as_call", "x = reload(1)", False),
        ("declaring", "add_argument('--load')", True),
        ("declaring", "add_argument('load')", True),
        ("declaring", "option('--load/--no-load')", True),
        ("declaring", "load: bool = False", True),
        ("declaring", "load \\\n    : bool = False", True),
        ("declaring", "args.load", False),
        ("declaring", "x = load(1)", False),
        ("declaring", "add_argument('--reload')", False),
        ("flagged", "add_argument('--load')", True),
        ("flagged", "load: bool = False", True),
        ("flagged", "add_argument('--reload')", False),
    ],
)
def test_a_text_says_whether_its_file_can_use_a_name(question: str, text: str, expected: bool) -> None:
    words = IdentifierIndex(["a.py"], lambda path: text)
    assert ("a.py" in getattr(words, question)("load")) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type='load'", True),
        ('name = "package.load"', True),
        ("f'{package}.load'", True),
        ("# how to load", False),
        ("'to load a file'", False),
    ],
)
def test_a_text_says_whether_a_string_of_it_may_be_a_name(text: str, expected: bool) -> None:
    assert IdentifierIndex(["a.py"], lambda path: text).says("a.py", "load") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A(B):\n    def f(self):\n        self.load()\n", False),
        ("class A(B):\n\n# more\n    def f(cls):\n        super().load()\n        super(A, cls).load(1)\n", False),
        ("class A(B):\n    def f(self):\n        self.loads()\n", False),
        ("class A(B):\n    def f(self):\n        self.net.load()\n", True),
        ("class A(B):\n    def f(self):\n        itself.load()\n", True),
        ("class A(B):\n    def f(self):\n        self.load()\n        make().load()\n", True),
        ("class A(B):\n    def f(self):\n        self.  # the first\n          load()\n", True),
        ("def f(self):\n    self.load()\n", True),
        ("class A:\n    pass\n\ndef f(self):\n    self.load()\n", True),
        ("class A:\n    pass\n\nif x:\n    class B:\n        def f(self):\n            self.load()\n", True),
        ("self.load()", True),
    ],
)
def test_a_text_says_whether_its_file_asks_others_than_its_own_objects(text: str, expected: bool) -> None:
    assert IdentifierIndex(["a.py"], lambda path: text).asks_others("a.py", "load") is expected


def test_the_classes_of_a_text_are_found() -> None:
    text = "class A(B):\n    class  C: pass\nsubclass D\nx = class_E\n"
    assert IdentifierIndex(["a.py"], lambda path: text).classes_in("a.py") == {"A", "C"}


@pytest.mark.parametrize("text", ["'--use-fast-path'", "'--use_fast-path'", "'--use-fast_path'", "use_fast_path: bool"])
def test_an_option_is_found_however_it_is_written(text: str) -> None:
    assert IdentifierIndex(["a.py"], lambda path: text).flagged("use_fast_path") == {"a.py"}


@given(st.text(st.sampled_from("ab_1é中，、 .\n\t-'\ud800"), max_size=40))
def test_words_are_those_of_the_pattern(text: str) -> None:
    assert words_of(text) == {word.encode("utf-8", "surrogatepass") for word in re.findall(r"\w+", text)}


@given(st.text(st.sampled_from("ab_1 .\n\t-'("), max_size=40))
def test_words_that_an_examination_found_are_those_of_the_text(text: str) -> None:
    names = names_in(text.encode())
    assert names is not None
    assert set(names.split()) == words_of(text)
    assert IdentifierIndex(["a.py"], lambda path: "", {"a.py": names}).holding("ab") == (
        ["a.py"] if b"ab" in words_of(text) else []
    )


@given(
    st.lists(
        st.sampled_from(
            ["os", "subprocess", ".run(", "run", "call", "system", " -m ", ".py", "é", "x", " ", ": bool", "bool", ": ",
             ".option", "option", "str", "click", "DEFINE_x", "dataclasses", "EasyDict"]
        )
    )
)  # fmt: skip
def test_names_say_of_a_text_what_the_text_says(parts: list[str]) -> None:
    text = "".join(parts)
    names = names_in(text.encode())
    assert may_define(text, names) is may_define(text)
    assert may_call_starter(text, names) is may_call_starter(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"import torch\n", True),
        (b"# -*- coding: utf-8 -*-\nimport torch\n", True),
        (b"#!/usr/bin/python\n# vim: set fileencoding=Latin-1 :\n", True),
        (b"# coding: utf-7\nimport torch\n", False),
        ("# \u5206\u5e03\n".encode(), False),
    ],
)
def test_bytes_that_are_the_characters_of_their_numbers(data: bytes, expected: bool) -> None:
    assert is_plain(data) is expected


@pytest.mark.parametrize(
    ("question", "pattern"),
    [
        ("says", r"ab(?<=[\"'}.\\\n]ab)[\"'{\\]"),
        ("as_base", r"class(?<!\wclass)\s+\w+\s*(?:\[[^\]]*\])?[\s\\]*\([^:]*\bab\b"),
        ("as_call", r"ab(?<!\wab)(?<!\bdef ab)(?<!\bclass ab)\("),
    ],
)
@given(
    st.lists(
        st.sampled_from(
            ["ab", "class ", "def ", "b", "é", " ", "\n", "(", ")", "[", "]", ":", "'", "\\", "}", "{", "."]
        )
    )
)
def test_what_a_text_says_of_a_name_is_what_its_pattern_says(question: str, pattern: str, parts: list[str]) -> None:
    text = "".join(parts)
    expected = re.search(pattern, text) is not None and re.search(r"\bab\b", text) is not None
    words = IdentifierIndex(["a.py"], lambda path: text)
    assert (words.says("a.py", "ab") if question == "says" else "a.py" in getattr(words, question)("ab")) is expected


@given(
    st.lists(st.text(st.sampled_from("ab_ ."), max_size=12), max_size=4), st.text(st.sampled_from("ab_"), min_size=1)
)
def test_the_beginning_of_a_word_is_found(texts: list[str], part: str) -> None:
    words = IdentifierIndex([str(number) for number in range(len(texts))], lambda path: texts[int(path)])
    beginning = re.compile(rf"\b{part}").search
    assert words.beginning(part) == [str(number) for number, text in enumerate(texts) if beginning(text) is not None]


@given(st.text(st.sampled_from("ab.:,-\"' #\n{]\t"), max_size=60))
def test_dotted_names_are_those_of_the_whole_text(text: str) -> None:
    assert list(dotted_names(text)) == [name for _, name in _NAME.findall(_COMMENT.sub("", text))]


def test_what_the_scan_has_parsed_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in PROJECT.items():
        (tmp_path / path).write_text(text)
    target = Target.named("npu")
    parsed: list[str] = []
    whole = PythonFile.__init__

    def init(self: PythonFile, path: str, *given: object) -> None:
        parsed.append(path)
        whole(self, path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(PythonFile, "__init__", init)
    monkeypatch.setattr(project, "_PARSED", 1)
    request = Request(tmp_path, list_files(tmp_path), target, rules(), account=True, afterwards=FACTS_FOR_JUDGING)
    judge(analyse(request), target)
    assert sorted(parsed) == sorted(set(parsed))
    assert "tools.py" in parsed


def test_a_method_is_not_looked_for_where_only_own_objects_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`self.run()` of another class says nothing of a method; where the classes are related it may be that one."""
    own = "class {}({}):\n    def start(self):\n        self.run()\n"
    files = {
        **BUILT,
        "base.py": "class Base:\n    def run(self):\n        import fast_ops\n        return fast_ops\n",
        "other.py": own.format("Other", "object"),
        "derived.py": "from base import Base\n" + own.format("Derived", "Base"),
        "train.py": "import torch\nfrom other import Other\nfrom derived import Derived\n"
        "if __name__ == '__main__':\n    Derived().start()\n",
    }
    parsed: list[str] = []
    whole = PythonFile.__init__

    def init(self: PythonFile, path: str, *given: object) -> None:
        parsed.append(path)
        whole(self, path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(PythonFile, "__init__", init)
    assert judged(tmp_path, files)["train.py"].verdict is Verdict.BLOCKED
    assert "derived.py" in parsed
    assert "other.py" not in parsed


def test_imports_lead_to_a_file_the_same_way_for_all_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What leads to a file is looked for once for all places at its left margin, and each has the whole chain."""
    files = {
        **BUILT,
        "train.py": "import torch\nimport far\nimport near\nimport near\n",
        "far.py": "import near\n",
        "near.py": "import deep\n",
        "deep.py": "import fast_ops\nimport cupy\nimport nvidia.dali\n",
    }
    begun: list[tuple[str, str]] = []
    found = path_search.CallPathSearch._found

    def search(self: path_search.CallPathSearch, begin: SearchState, state: Search) -> object:
        if begin.place.node is None:
            begun.append((begin.place.path, state.error))
        return found(self, begin, state)

    monkeypatch.setattr(path_search.CallPathSearch, "_found", search)
    program = judged(tmp_path, files)["train.py"]
    chains = {obstacle.what: [str(step) for step in obstacle.call_path.steps] for obstacle in program.blockers}
    assert len(chains) == 3
    assert {tuple(chain[:-1]) for chain in chains.values()} == {("train.py:3", "near.py:1")}
    assert sorted(begun) == sorted(set(begun)), "once for each kind of error"
    assert {path for path, _ in begun} >= {"deep.py"}


def test_words_are_whole() -> None:
    texts = {"a.py": "load(x)", "b.py": "reload(x)", "c.py": "x.load"}
    assert IdentifierIndex(sorted(texts), texts.__getitem__).holding("load") == ["a.py", "c.py"]


PROJECT: Files = {
    "train.py": "import argparse\nimport model\nimport guarded\nfrom tools import build\nparser = argparse."
    "ArgumentParser()\nparser.add_argument('--fast', action='store_true')\n\ndef main():\n    args = "
    "parser.parse_args()\n    build(args.fast)\n    model.Net().run()\n\nif __name__ == '__main__':\n    main()\n",
    "model.py": "import torch\nfrom inner import capability\n\nclass Net:\n    def run(self):\n        return "
    "capability()\n\n    def other(self):\n        import cupy\n        return cupy\n",
    "inner.py": "import torch\n\ndef capability():\n    return torch.cuda.get_gencode_flags()\n\n"
    "def unused():\n    return torch.cuda.get_gencode_flags()\n",
    "guarded.py": "import torch\ntry:\n    import inner\n    import behind\nexcept ImportError:\n    behind = None\n",
    "behind.py": "import torch\nmajor = torch.cuda.get_gencode_flags()\n",
    "tools.py": "import torch\n\ndef build(fast, slow=False):\n    if fast:\n        import cupy\n"
    "        torch.cuda.get_gencode_flags()\n    return torch.cuda.get_device_capability()\n",
    "eval.py": "import model\nif __name__ == '__main__':\n    model.Net().other()\n",
}


def test_a_verdict_does_not_depend_on_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = judged(tmp_path, PROJECT)
    monkeypatch.setattr(sources, "_ROOM", 1)
    assert judged(tmp_path, PROJECT) == kept


def test_a_tree_that_is_larger_than_what_is_kept_is_not_parsed_again_for_each_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which classes are derived from one is asked for each of its methods, of more files than stay parsed."""
    methods = range(12)
    files = {
        "base.py": "import torch\nclass Base:\n"
        + "".join(f"    def work{n}(self):\n        torch.cuda.get_gencode_flags()\n" for n in methods),
        "train.py": "".join(f"import part{n}\n" for n in methods)
        + "if __name__ == '__main__':\n"
        + "".join(f"    part{n}.Part().start()\n" for n in methods),
        **{
            f"part{n}.py": "import torch\nfrom base import Base\n\nclass Part(Base):\n"
            f"    def start(self):\n        self.work{n}()\n"
            for n in methods
        },
    }
    expected = judged(tmp_path, files)
    assert expected["train.py"].verdict is Verdict.DECISIONS
    parsed: Counter[str] = Counter()
    whole = PythonFile.__init__

    def init(self: PythonFile, path: str, *given: object) -> None:
        parsed[path] += 1
        whole(self, path, *given)  # type: ignore[arg-type]

    examined = small(tmp_path, files, with_rules=True)
    monkeypatch.setattr(PythonFile, "__init__", init)
    monkeypatch.setattr(sources, "_ROOM", 1)
    assert examined.judged() == expected
    assert max(count for path, count in parsed.items() if path.startswith("part")) <= 3


def test_nodes_of_an_earlier_parse_end_a_search() -> None:
    text = SourceText("def run(size):\n    if size > 1:\n        import cupy\n")
    before, after = PythonFile("a.py", text), PythonFile("a.py", text)
    compared = before.functions[0].body[0].test  # type: ignore[attr-defined]
    made = ast.copy_location(ast.Compare(compared.left, [ast.Eq()], [ast.Constant(2)]), compared.left)
    found = sources.current(after, made)
    assert isinstance(found.left, ast.Name)
    assert found.left in after.parents
    assert sources.current(before, made) is made
    names = Names(after)
    assert names.bindings(found.left) == after.arguments["size"]
    assert names.bindings(compared.left) == []  # and not for ever
    assert after.enclosing_function(compared.left) is None


def test_a_decision_is_one_where_the_way_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short question, with what it remembers of others, agrees with the way that is searched for alone."""
    from torchferry.programs.call_paths.path_search import CallPathSearch

    short, asked = CallPathSearch.comes_to, []

    def comes_to(self: CallPathSearch, path: str, node: ast.AST, supposed: ast.expr | None = None) -> bool:
        answer = short(self, path, node, supposed)
        self._ways.clear()
        self._without[Reachability.GUARDED].clear()
        way = self.call_path(path, node, supposed)
        asked.append((answer, way is not None and way.reachability <= Reachability.CHOSEN))
        self._ways.clear()
        self._without[Reachability.GUARDED].clear()
        return answer

    monkeypatch.setattr(CallPathSearch, "comes_to", comes_to)
    judged(tmp_path, PROJECT)
    assert {answer for answer, _ in asked} == {True, False}
    assert [answer for answer, _ in asked] == [expected for _, expected in asked]


def test_a_way_is_the_one_that_is_found_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ways that are as long it is the one that is met first, whatever is remembered of other ways."""
    from torchferry.programs.call_paths.path_search import CallPathSearch

    remembering, differing, asked = CallPathSearch.call_path, [], []

    def way(
        self: CallPathSearch,
        path: str,
        node: ast.AST,
        supposed: ast.expr | None = None,
        worst: Reachability = Reachability.GUARDED,
        error: str = "",
        *,
        wanted: bool = True,
    ) -> object:
        answer = remembering(self, path, node, supposed, worst, error, wanted=wanted)
        kept = self._ways, self._taken, self._without
        self._ways, self._taken, self._without = {}, set(), {need: set() for need in Reachability}
        alone = remembering(self, path, node, supposed, worst, error, wanted=wanted)
        self._ways, self._taken, self._without = kept
        asked.append(path)
        if alone != answer:
            differing.append((path, answer, alone))
        return answer

    monkeypatch.setattr(CallPathSearch, "call_path", way)
    files = {
        **BUILT,
        "train.py": "import models\nif __name__ == '__main__':\n    models.run()\n",
        "models/__init__.py": "from . import detector\n",
        "models/detector.py": "from . import backbone\nfrom . import head\n",
        "models/backbone.py": "from ops import modules\n",
        "models/head.py": "import fast_ops\nfrom ops import modules\n",
        "ops/__init__.py": "",
        "ops/modules.py": "from . import inner\n",
        "ops/inner.py": "import fast_ops\n",
    }
    program = judged(tmp_path, files)["train.py"]
    assert [blocker.what for blocker in program.blockers] == ["fast_ops"]
    assert len(asked) > 1
    assert not differing


def test_a_search_meets_each_place_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many methods of one name call each other, and the program calls none of them."""
    monkeypatch.setattr(path_search, "_MOST", 60)
    others = "".join(
        f"class Model{number}:\n    def sample(self, other):\n        return other.sample(self)\n"
        for number in range(20)
    )
    files = {
        "train.py": "import models\nif __name__ == '__main__':\n    print(models.torch.ones(2))\n",
        "models.py": "import torch\nclass Fast:\n    def sample(self, other):\n        import cupy\n" + others,
    }
    program = judged(tmp_path, files)["train.py"]
    assert program.verdict is Verdict.READY
    assert not program.optional


def test_a_file_that_only_holds_the_word_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "train.py": "import work\nimport notes\nif __name__ == '__main__':\n    work.compute()\n",
        "work.py": "import torch\n\ndef compute():\n    return torch.cuda.get_gencode_flags()\n",
        "notes.py": "# what compute does is said elsewhere\nTEXT = 'how to compute it'\n",
    }
    examined = small(tmp_path, files, with_rules=True)
    parsed: list[str] = []
    whole = Project.file

    def file(self: Project, path: str) -> object:
        parsed.append(path)
        return whole(self, path)

    monkeypatch.setattr(Project, "file", file)
    (program,) = judge(examined.analysis, examined.target)
    assert program.verdict is Verdict.DECISIONS
    assert "work.py" in parsed
    assert "notes.py" not in parsed


def test_defaults_of_what_is_no_option(tmp_path: Path) -> None:
    part = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\nparser.set_defaults(fast=print)\n"
    files = {
        "train.py": f"import other\n{part}args = parser.parse_args()\nif args.fast:\n    import cupy\n",
        "other.py": part,
    }
    assert judged(tmp_path, files)["train.py"].unread == ()


def test_a_method_that_a_thousand_places_may_call_is_not_looked_for_in_each(tmp_path: Path) -> None:
    calls = "".join(f"def f{number}(x):\n    x.load()\n" for number in range(uses.MOST_PLACES + 1))
    files = {
        "train.py": "import net\nimport torch\nimport calls\ncalls.f1(torch.load('x'))\n",
        "net.py": "class Net:\n    def load(self):\n        import cupy\n",
        "calls.py": calls,
    }
    (obstacle,) = judged(tmp_path, files)["train.py"].optional
    assert (obstacle.what, obstacle.call_path.reachability) == ("cupy", Reachability.CHOSEN)
    assert obstacle.call_path.conditions == ("load() (net.py:2)",)
