"""Joint search over parallel axes, their place in the network, schedule and transport.

After ScaleAcross Explorer (arXiv 2605.24326). ``network`` is the machine, ``shapes`` the model,
``layouts`` what can be chosen, ``steps`` what a choice costs, ``bound`` what it costs at least,
``search`` finds the best, ``report`` sets it beside the given layout and the best of each axis.
Times are seconds, sizes bytes, rates bit/s, as everywhere.
"""
