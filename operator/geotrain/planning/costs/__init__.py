"""What a model costs before it ran: operations, bytes, memory, collectives, whole iterations.

Everything is a function of a shape, a named accelerator and links by tier, or reads a measured
profile as it was published. ``schedule.costs`` turns the layers of either into stages.
"""
