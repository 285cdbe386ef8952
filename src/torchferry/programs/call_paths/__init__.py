"""The surest chain of imports and calls from a program to a place, with its conditions.

path_search     the search, from the place back to the program; search_state: its records
place_contexts  the contexts of places, for all programs
program_uses    the uses of functions, as one program means them
unmade_classes  the classes that a program never instantiates
"""
