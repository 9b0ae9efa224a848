"""Tests of the replay room."""
