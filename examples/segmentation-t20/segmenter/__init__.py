"""A small segmentation toolbox in the shape of the public ones: a program is told by a file of dictionaries what to do."""
