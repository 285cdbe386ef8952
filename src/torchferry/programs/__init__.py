"""The programs of a project: how they are started, what each reaches, and whether it can run on the target.

How they are started
    entry_points    which programs there are, and which programs these start
    launch_commands the commands that start files, with what stands for their variables

What each reaches
    modules         which file imports which, with the place
    computed        what a module name that is computed may be
    instantiated    classes that settings files name
    made_objects    the calls that make objects of what settings name
    plugin_points   what programs load by entry points; declared_points: what packaging files declare; setup_tables: of
                    which what a setup.py lists
    uses            where functions and classes are used; use_kinds: the records of that; use_syntax: what a use is
    method_names    the names under which objects have a method
    lineage         what classes are derived from, and which of them an object asks for a method
    tables          what dictionaries of functions and `getattr` choose
    decorators      what the project's own decorators keep, or give
    called_by_decorators  what decorators have called: at once, at the end, for a type, for an operator
    class_registries  where a class is taken from what keeps all that are derived from one
    fields_given    functions and classes that are a field of an object, and where it is asked for
    text_uses       where functions and classes are chosen by texts
    definitions     which definition of a name counts
    meant_uses      where a function is used as one program means it, told once for all of its ways
    reach           the way from a program to a place: the chain of imports and calls, and its conditions
    arrivals        what a search for a way holds
    live            whether a program comes to a piece of code at all

What must hold on the way
    around          what stands around a place: tests, attempts, the main guard
    surroundings    what is known of places, whichever program asks
    conditions      the answer to a condition when nothing is said
    values          the value of an expression; path_values: the path that it names; written_ends: how a text begins
    objects         what an expression may be; object_kinds: the records of that
    members         what an object has under a name; option_members: what options and settings give it
    parameters      which parameters a call gives, and what
    switches        the options that files declare, and what a command says of them
    config_files    the values in settings files
    stored          what functions and variables hold, as their file says it
    filled_names    names that objects are given out of settings; unasked_makers: class methods that nobody asks for
    command_words   what the commands say that start a program
    program_facts   what depends on the program, taken down for each answer
    answers         the answers, shared by the programs that say the same
    asked           questions after a package

What it needs, and the verdict
    lacks           what each file needs that the target does not have
    demands         where a program ends for lack of something whose import is attempted
    obstacles       what stops a program, with the way to it
    settings_needs  what settings need that it does not have
    installed_needs what packages show as they are installed
    carriers        what a program computes with and nobody has read
    unknown         what a program reaches of which nothing is known; absent: imports that lead to what was not read
    unlooked        what of the project was not looked at
    fixes           the fixes that a program reaches
    judging         the verdict of each program; told_order: in which order it is told
    blocking        which findings block, by what the programs come to
    settled         a verdict and what was seen in a run, put together
    model           the records of all these

    sources, words, noting: the files, which of them hold a name, and what the scan takes down while it has them parsed
"""
