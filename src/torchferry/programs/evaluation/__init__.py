"""The values of expressions and conditions, under the options that a program is started with.

conditions           the truth of a condition; values: the value of an expression; operations: of operators
objects              the object that an expression is; object_kinds: the records of that
members              attributes and items of objects; fields: of records; option_members: of parsed options
value_types          the types of values, and the dimensions of tensors
passed_values        the values of parameters; returned_values: of calls; inherited_calls: through derived classes
settings_parameters  the values that settings give to parameters; config_files: settings files
path_values          paths of files; parser_words: the words that a parser is given
object_calls         calls of torch modules; factory_methods: class methods that nobody calls
program_facts        the facts of one program, with a record of which were asked for
shared_results       results that hold for all programs with the same facts
"""
