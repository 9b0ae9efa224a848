"""Tests of stores in one place that machines share."""
