"""What Helm runs around a release: definitions before an upgrade, the farewell before an uninstall.

Each is a Job with an account of its own that exists only while it runs. ``app`` wires, ``crds`` and
``uninstall`` decide, ``farewell`` acts.
"""
