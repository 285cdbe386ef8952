"""The programs of a project: how they are started, what each reaches, and whether it can run on the target.

discovery   which programs there are, from the files, the packaging and every command that starts one
commands    the commands that start files
computed    what a module name that is computed may be
instantiated  classes that settings name
modules     which file imports which, with the place, also by names that are computed
switches    options, settings and constants: what decides a condition when nothing is said
parameters  which parameters a call gives, and what
constants   what objects keep in attributes of their own
asked       questions after a package
conditions  what must hold for a place in a file to be run
around      what stands around a place: tests, attempts, the main guard
surroundings  what is known of places, whichever program asks
uses        where functions and classes are used
words       which files hold a name
noting      what judging takes down of each file while the scan has it parsed
reach       the way from a program to a place: the chain of imports and calls, and its conditions
live        whether a program comes to a piece of code at all
starting    the programs that other programs start
lacks       what each file needs that the target does not have
unknown     what a program reaches of which nothing is known; absent: imports that lead to what was not read
unlooked    what of the project was not looked at
installed_needs  what packages show as they are installed
judging     the verdict of each program
blocking    which findings block, by what the programs come to
settled     a verdict and what was seen in a run, put together
model       the records of all these
"""
