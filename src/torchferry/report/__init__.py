"""Reports: one formatter a file, all of them over the same `Report`."""
