"""The programs of a project, and the commands that start them.

finder             the programs: by the roles of files, by commands, and by the scripts that an installation makes
launch_commands    the commands that start files of the project
written_commands   the commands in one file
command_variables  commands in variables of the shell and of make
"""
