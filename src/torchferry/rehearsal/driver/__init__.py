"""The vendor's plugin as it is shipped, on a simulated driver: without card, driver and toolkit.

`csrc/` is a machine with accelerators in C, for every vendor. The vendor's folder says in `driver/driver.toml` which
libraries its plugin opens, and has in C what their functions do with that machine. `operators/` is C++: when the plugin
has been imported, its operators are computed by the CPU on the plugin's own memory.
"""
