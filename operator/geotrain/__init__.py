"""geotrain trains one model across several Kubernetes clusters and sells the idle GPU time.

``model`` holds the nouns, ``planning`` decides where and when, ``fitting`` whether a gang fits
now, ``shaping`` and ``striping`` what happens on the wire, ``prefill`` what goes into a bubble.
``api`` is the border with users, ``adapters`` the only I/O, ``roles`` the running programs.
``gate`` and ``progress`` are imported by users' trainers and prefill workers.
"""

__version__ = "0.1.0"
