"""A prefill worker that uses the bubbles of a training rank's GPU, and a decode service.

``python -m examples.prefill.worker`` serves prompts one after another; before every kernel it
waits for the rank's gate. ``kernels`` says how a prompt is cut, ``prompts`` holds those that wait,
``runner`` computes, ``model`` (the only part that needs PyTorch) is a tiny transformer.
``python -m examples.prefill.decode`` stands in for a decode service.
"""
