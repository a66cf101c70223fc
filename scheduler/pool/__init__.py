"""The pool file, changes from one pool to another, and administrators' rules."""
