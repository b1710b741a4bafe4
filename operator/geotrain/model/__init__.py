"""The nouns of geotrain: frozen values that check their own invariants. Standard library only."""
