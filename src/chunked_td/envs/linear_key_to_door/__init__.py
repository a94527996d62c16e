"""The linear key-to-door of the COCOA paper: table, Gymnasium."""
