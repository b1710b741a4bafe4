"""The scheduler's extender: filters, prioritizes and preempts for geotrain's pods only.

Stateless: what it knows comes from its own watches of nodes and pods, so any number may run.
"""
