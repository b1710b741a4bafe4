"""One byte stream over many TCP connections, as a protocol without sockets and without a clock.

A ``Stream`` is one end. Its bytes are cut into frames that carry their offset, and any ``Lane``
(one connection) that can take a frame gets the next one, on the path that has the least on its way.
The far end drains every lane at once, puts the bytes in order and acknowledges them, so what a dead
lane had not delivered goes over the others. The receiver grants credit: a sender never has more in
flight than the far end can hold.

No I/O is done here: the caller moves bytes between lanes and connections.
"""
