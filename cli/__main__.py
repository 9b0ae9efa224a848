"""`python -m locus_cli`: the same as `locus`."""

from .start import main

if __name__ == "__main__":
    main()
