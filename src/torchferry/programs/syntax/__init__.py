"""Facts of single files that their syntax tells, whichever program asks.

place_context      the conditions, attempts and function around a place
parameters         the parameters of functions, and the arguments of calls
assignments        assignments, handlers and loops on which a condition depends
definitions        the definition that counts where a name is bound more than once
decorators         functions that the project's own decorators register or wrap
dispatch_tables    dictionaries of functions and classes, and where they are asked for a key
dynamic_lookups    names that `getattr`, `globals()`, `eval` and `exec` look up
method_names       the names under which a class has a method
package_questions  questions whether a package is there: `is_flash_attn_2_available()`
partial_texts      the constant beginning and end of a computed text
use_syntax         how a name is used, by the syntax around it
identifier_index   the files that hold a word
per_file           results that are kept as long as a file is kept parsed
"""
