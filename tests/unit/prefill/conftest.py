import hypothesis

# Examples are timed by the wall, and the machine may be busy with something else.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")
