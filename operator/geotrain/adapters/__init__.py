"""The only I/O: each module is the one importer of its library."""
