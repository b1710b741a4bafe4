"""The ``geotrain`` command line."""
