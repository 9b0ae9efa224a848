"""Folding a lake on Apache Spark: tasks in other processes, some of which are killed."""
