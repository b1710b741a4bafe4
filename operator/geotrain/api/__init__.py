"""The border with users: resources, their words, and the translation to and from the model."""
