"""`locus doctor`: does recording work here, and is the store sound? Reads only."""
