"""Where the time of a run goes: traces of profilers are read, summarised, and compared across vendors.

A trace is what `torch.profiler` or a vendor's own profiler wrote. `reading` turns every kind into the records of
`records`, `linking` says which operator started which work of the device, `summary` measures one trace and `comparison`
two. None of it needs torch, a plugin or a card.
"""
