"""The programs of a project: how they are started, what each reaches, and whether it can run on the target.

discovery   which programs there are, from the files, the packaging and every command that starts one
commands    the commands that start files
computed    what a module name that is computed may be
instantiated  classes that settings name
cases       what a case of a match asks
modules     which file imports which, with the place, also by names that are computed
switches    options, settings and constants: what decides a condition when nothing is said
asked       questions after a package
conditions  what must hold for a place in a file to be run
reach       the way from a program to a place: the chain of imports and calls, and its conditions
live        whether a program comes to a piece of code at all
starting    the programs that other programs start
judging     the verdict of each program
model       the records of all these
"""
