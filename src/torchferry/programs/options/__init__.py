"""The options that files declare, and the values that commands give them.

switches          options of argparse, click, fire, hydra and the like, with their defaults
option_libraries  options that typer, docopt and the like make of parameters and texts
command_line      the options and variables in the command that starts a program
argument_lists    lists of words that a program gives its parser itself
answers           the truth of a condition, and the default value of an expression
"""
