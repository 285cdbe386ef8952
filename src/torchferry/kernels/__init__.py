"""CUDA C++ and what builds it: reading, porting, the review list and the gates."""
