"""A small GPT that trains as a geotrain job: pipeline and data parallel over torch.distributed.

``python -m trainer`` runs one rank. ``settings`` reads who the rank is, ``schedule`` what it does
in which order, ``profile`` how long that takes; ``rendezvous`` brings the ranks together,
``channels`` carries what is in flight, ``engine`` runs the iterations. Only ``model``, ``stage``,
``messages``, ``transport`` and ``checkpoints`` need PyTorch (1.13 or later).

On a test bed without GPUs the tensors are tiny, and an emulated accelerator (``accelerator``) is
held for as long as the profile says that a real one would compute.
"""
