"""What examinations of commands came to, for people and machines. Works on files, without torch."""
