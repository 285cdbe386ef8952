"""The project's files as modules: which file imports which, also by names that are computed or that settings hold.

sources             the files, parsed when they are requested
module_graph        the imports of each file, with their places
computed_names      the possible values of a computed module name
lazy_imports        packages and objects that import on their first use
missing_sources     imports of the project's own modules that were not read
packaging_metadata  entry points that packaging files declare
setup_scripts       entry points in a `setup.py`
plugin_loading      entry points that programs load
settings_classes    classes that settings name
instantiations      the calls that make objects of these
"""
