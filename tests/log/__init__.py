"""Tests of the log room."""
