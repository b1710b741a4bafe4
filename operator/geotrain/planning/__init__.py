"""Decides where a job's stages run and when everything happens. Pure: data in, data out.

``schedule`` says when (orders, costs, replay, windows, bubbles), ``placement`` says where and
chooses. No I/O, no clock, no randomness: equal inputs give an equal plan, byte for byte.
"""
