"""What is found in a file for a question that comes back, kept as long as the file is kept parsed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from torchferry.source.names import Names
from torchferry.source.python import PythonFile

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def per_file(find: Callable[[PythonFile, K], T]) -> Callable[[PythonFile, K], T]:
    """Let a function find out once what it says of something in a file; what it returns must not hold the file."""
    results: WeakKeyDictionary[PythonFile, dict[K, T]] = WeakKeyDictionary()

    @wraps(find)
    def cached(file: PythonFile, key: K) -> T:
        of_file = results.get(file)
        if of_file is None:
            of_file = results[file] = {}
        if key not in of_file:
            of_file[key] = find(file, key)
        return of_file[key]

    return cached


def once_per_file(find: Callable[[PythonFile, Names], T]) -> Callable[[PythonFile, Names], T]:
    """Let a function find out once what there is in a file; what it returns must not hold the file."""
    results: WeakKeyDictionary[PythonFile, T] = WeakKeyDictionary()

    @wraps(find)
    def cached(file: PythonFile, names: Names) -> T:
        if file not in results:
            results[file] = find(file, names)
        return results[file]

    return cached
