"""`python -m chunked_td` is the command `chunked-td`."""

from chunked_td.cli import main

if __name__ == "__main__":
    main()
