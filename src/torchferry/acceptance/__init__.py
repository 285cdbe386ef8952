"""Whether a migrated project is accepted: one file says what it has to keep, and gates judge what its runs show.

`acceptfile` reads the file, `runs` runs its commands with `watch` in their processes, `stages` and the modules that it
names judge, `evidence` keeps all of it. What could not be judged is never green.
"""
