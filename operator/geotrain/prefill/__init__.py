"""Which prompt is prefilled in which bubble: pure decisions over values, no clock, no network."""
