"""Verbs that set Locus up in a repository, and show whether it works."""
