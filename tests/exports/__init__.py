"""Tests of what leaves a store as a file, and of what comes back."""
