"""Studies, one folder each; `chunked_td.lab.catalogue` says what a folder holds and finds them."""
