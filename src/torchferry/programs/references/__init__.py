"""Where the functions and classes of a project are used, whichever program asks.

uses               uses by name, as a method, or by a text; settings_uses: by settings, by entry points
calls              calls by name; unnamed_arguments: what calls without a name may give
class_hierarchy    base classes, and the classes that a method call may mean
class_registries   classes that are taken from `__subclasses__()` or a registry
decorator_calls    functions that a decorator has called: at once, at exit, for a type, for an operator
callable_fields    functions and classes that are fields of an object
escapes            functions and classes that are handed to code that is not followed
import_results     uses of names that an attempted import may not bind
reachable_code     the code that a program reaches, whatever the conditions
"""
