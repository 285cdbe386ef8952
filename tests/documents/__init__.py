"""What five documents describe, tried as they print it: names, arguments, files and results, in programs of our own.

A folder for each document. Each test is a trial that rows of `tools/coverage.toml` name as their proof; `make coverage`
runs all of them, `make test` too, since they are small.
"""
