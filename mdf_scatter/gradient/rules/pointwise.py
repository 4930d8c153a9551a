"""Rules of operators that work element by element on one tensor."""
