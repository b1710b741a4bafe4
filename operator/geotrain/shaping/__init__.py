"""What the kernel's HTB should hold, as values: desired classes, and how to get there.

Pure. Rates are bit/s; the kernel's bytes per second appear in the netlink adapter alone. The
method is that of tc-htb(8): a class may always send at its ``rate``, and beyond it up to its
``ceil`` what its siblings leave idle. Nothing here ever stops a flow for good.
"""
