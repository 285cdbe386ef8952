"""The kinds of objects whose attributes and items decide conditions."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.settings_classes import ComposedFile
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.argument_lists import OF_COMMAND, GivenWords
from torchferry.programs.syntax.parameters import Expression
from torchferry.programs.syntax.per_file import per_file
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile


class ClassObject(NamedTuple):
    """A class, or an object of it.

    Attributes:
        file: The file that defines it.
        names: What names mean there.
        node: Its definition.
        maker: The call that makes the object; None for the class itself, or where it is not known.
        by_options: Whether the command line fills its fields.
        prefix: What precedes the names of its fields there: `model.` for the fields of `config.model`.
    """

    file: PythonFile
    names: Names
    node: ast.ClassDef
    maker: Expression | None = None
    by_options: bool = False
    prefix: str = ""

    @property
    def key(self) -> object:
        """Its identity."""
        return "class", self.file.path, self.node.lineno, None if self.maker is None else self.maker.place


class ModuleObject(NamedTuple):
    """A module of the project."""

    path: str

    @property
    def key(self) -> object:
        """Its identity."""
        return "module", self.path


class TableObject(NamedTuple):
    """A dictionary that is written down, or a record that holds its arguments: `SimpleNamespace(fast=False)`."""

    where: Expression

    @property
    def key(self) -> object:
        """Its identity."""
        return "table", self.where.place


class ParserObject(NamedTuple):
    """A parser of a command line, by the call that makes it."""

    where: Expression

    @property
    def key(self) -> object:
        """Its identity."""
        return "parser", self.where.place


class OptionsObject(NamedTuple):
    """What a parser has read; with None any parser of the program. `words` where the code says what it reads."""

    parser: ParserObject | None
    words: GivenWords = OF_COMMAND

    @property
    def key(self) -> object:
        """Its identity."""
        return "options", None if self.parser is None else self.parser.key, self.words


class SettingsObject(NamedTuple):
    """What is below some keys of settings files.

    Attributes:
        files: The files, each with the keys below which it stands.
        keys: The keys.
        by_hydra: Whether words of the command take their place.
    """

    files: tuple[ComposedFile, ...]
    keys: tuple[str, ...] = ()
    by_hydra: bool = False

    @property
    def key(self) -> object:
        """Its identity."""
        return self


class LayersObject(NamedTuple):
    """Several objects in one, of which a later one takes the place of an earlier one.

    Attributes:
        layers: The objects.
        is_deep: Whether tables in them are put into one another too, as OmegaConf merges them.
    """

    layers: tuple[Object, ...]
    is_deep: bool = False

    @property
    def key(self) -> object:
        """Its identity."""
        return tuple(layer.key for layer in self.layers)


class KeywordsObject(NamedTuple):
    """The further keywords that a function takes: `**kwargs`."""

    where: Expression
    function: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def key(self) -> object:
        """Its identity."""
        return "keywords", self.where.file.path, self.function.lineno


class ParametersObject(NamedTuple):
    """The parameters with which an object of a class was made, as Lightning keeps them in `self.hparams`."""

    of: ClassObject

    @property
    def key(self) -> object:
        """Its identity."""
        return "parameters", self.of.key


class WordsObject(NamedTuple):
    """The words of the command, by keys: `OmegaConf.from_cli()`."""

    keys: tuple[str, ...] = ()

    @property
    def key(self) -> object:
        """Its identity."""
        return "words", self.keys


class OtherObject(NamedTuple):
    """Something else, such as what a package returns: nothing is known of it but what the program stores in it."""

    place: object
    names: tuple[str, ...] = ()

    @property
    def key(self) -> object:
        """Its identity."""
        return "other", self.place, self.names


Object = (
    ClassObject
    | ModuleObject
    | TableObject
    | ParserObject
    | OptionsObject
    | SettingsObject
    | LayersObject
    | KeywordsObject
    | ParametersObject
    | WordsObject
    | OtherObject
)


class Member(NamedTuple):
    """An attribute or item of an object.

    Attributes:
        values: The expressions that it may have as its value.
        value: Its value, where no expression of the project gives it.
        objects: What it is, where it is an object that no expression gives.
        option: What must be said for another value, where the value itself says nothing.
        is_open: Whether it may have other values too.
        is_there: Whether the object has it at all; its values are empty where it has not.
    """

    values: tuple[Expression, ...] = ()
    value: DefaultValue | None = None
    objects: tuple[Object, ...] = ()
    option: str = ""
    is_open: bool = False
    is_there: bool = True


ABSENT = Member(is_there=False)
UNKNOWN = Member(is_open=True)


@per_file
def body_values(_: PythonFile, of: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """Return what the body of a class gives names; None where it gives one a value that cannot be told."""
    values: dict[str, list[ast.expr | None]] = {}
    for part in of.body:
        given: dict[str, ast.expr | None] = {}
        if isinstance(part, ast.Assign):
            given = {target.id: part.value for target in part.targets if isinstance(target, ast.Name)}
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            given = {part.target.id: part.value}
        elif isinstance(part, ast.ClassDef):
            given = {part.name: ast.copy_location(ast.Name(part.name, ast.Load()), part)}
        elif isinstance(part, (ast.If, ast.For, ast.Try, ast.With)):
            names = (inner for inner in nodes_in(part) if isinstance(inner, ast.Name))
            given = {name.id: None for name in names if isinstance(name.ctx, ast.Store)}
        for name, value in given.items():
            values.setdefault(name, []).append(value)
    return values


def default_of_field(of: ClassObject, value: ast.expr) -> Expression:
    """Return the default that `field(...)` represents, else the value itself."""
    keywords = {each.arg: each.value for each in value.keywords} if isinstance(value, ast.Call) else {}
    if isinstance(value, ast.Call) and last_name(value.func) in ("field", "Field"):
        factory = keywords.get("default_factory")
        if isinstance(factory, ast.Lambda):
            value = factory.body
        elif factory is not None:
            value = ast.copy_location(ast.Call(factory, [], []), value)
        else:
            value = keywords.get("default", value.args[0] if value.args else value)
    return Expression(of.file, of.names, value)


def layers_of(of: Object) -> tuple[Object, ...]:
    """Return an object with those that it was put together of."""
    return (of, *of.layers) if isinstance(of, LayersObject) else (of,)


def whole_key(of: Object) -> Hashable | None:
    """Return all that tells an object from others; None where what one call gives is a part of it."""
    if isinstance(of, ClassObject):
        maker = of.maker
        if maker is not None and maker.given:
            return None
        return of.node, None if maker is None else maker.node, of.by_options, of.prefix
    if isinstance(of, TableObject):
        return None if of.where.given else of.where.node
    return of.path if isinstance(of, ModuleObject) else None


def keys_of(of: Object) -> tuple[object, ...]:
    """Return what an object is known by: an object of a class has also what is stored in the class.

    So do settings of several files have what is stored in those of one.
    """
    if isinstance(of, SettingsObject) and not of.by_hydra and len(of.files) > 1:
        return (of.key, *(of._replace(files=(file,)).key for file in of.files))
    return (of.key, of._replace(maker=None).key) if isinstance(of, ClassObject) else (of.key,)


def is_record(of: TableObject) -> bool:
    """Whether a table has attributes, as a namespace has."""
    return isinstance(of.where.node, ast.Call) and last_name(of.where.node.func) != "dict"
