"""Tests of pages to read."""
