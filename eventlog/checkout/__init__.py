"""Trees written out as files, inside one directory and nowhere else (I27, I28)."""
