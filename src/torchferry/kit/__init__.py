"""The files beside a migrated project: requirements, setup test, read-me, guide."""
