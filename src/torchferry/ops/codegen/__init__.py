"""Operators in C++: a list of them becomes their registrations, on an unchanged torch."""
