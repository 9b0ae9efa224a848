"""`python -m locus_cli`: the same as `locus`."""

from .main import main

if __name__ == "__main__":
    main()
