"""The programs of a project: their entry points, the code that each reaches, and whether each runs on the target.

The packages are layers; each imports from those above it in this list, and from none below.

model           the records: a program, its verdict, and the obstacles with the call paths to them
syntax          facts of one file: parameters, assignments, decorators, dispatch tables, the context of a place
imports         the project's files as modules: import edges by names, settings and entry points
options         the options that files declare, and the values that commands give them
entry_points    the programs: files with that role, console scripts, and files that commands start
references      the uses of functions and classes, and the code that a program reaches at all
evaluation      the values of expressions and conditions under the options that a program is started with
call_paths      the surest chain of imports and calls from a program to a place, with its conditions
verdicts        the features that the target lacks, the obstacles of each program, and its verdict
"""
