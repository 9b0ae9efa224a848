"""Verbs that bring recorded files back: into a directory of their own, or into the working directory."""
