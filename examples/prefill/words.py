"""A vocabulary of a few words, so that an answer can be read. A real service has a tokenizer."""

VOCABULARY = 1024
# fmt: off
_WORDS = (
    "the", "a", "one", "some", "every", "no", "its", "our", "tide", "river", "link", "layer",
    "stage", "bubble", "gate", "wave", "train", "cable", "moves", "waits", "carries", "fills",
    "crosses", "joins", "holds", "opens", "turns", "sends", "early", "late", "slowly", "again",
    "here", "there", "while", "before", "after", "under", "over", "between", "and", "or", "but",
    "so", "then", "still", "only", "never", "always",
)
# fmt: on


def word(token: int) -> str:
    """Return a token's text."""
    return " " + _WORDS[token % len(_WORDS)]
