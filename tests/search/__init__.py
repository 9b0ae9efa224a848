"""Tests of the room of search."""
