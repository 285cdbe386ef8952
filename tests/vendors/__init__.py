"""What the tests know of each vendor: recorded machines and the names of its plugin, one folder each."""
