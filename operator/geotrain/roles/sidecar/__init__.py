"""The sidecar of a training pod: carries its cross-DC TCP, shapes it, and publishes bubbles.

network       what the controller wrote: ranks, flows, windows (pure)
routes        which lanes carry a connection (pure)
alignment     from the trainer's signals to the moment of the iteration (pure)
bubbles       from the moment of the iteration to the gate's page (pure)
intercept, origin, sockets   the kernel's side of a redirected connection
loop, splices, stripes, dials, pump   the data path: one thread, one epoll
resolver, shape, signals, status, app  what runs beside it
"""
