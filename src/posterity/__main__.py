"""`python -m posterity`: the command line."""

from posterity.cli import main

if __name__ == "__main__":
    main()
