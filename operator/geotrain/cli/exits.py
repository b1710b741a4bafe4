"""Exit codes, the same for every command."""

from typing import Final

FINE: Final = 0
NO: Final = 1
FAULT: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

MEANINGS: Final = {
    FINE: "done, and the answer is yes",
    NO: "done, and the answer is no: nothing fits, or something was found wrong",
    FAULT: "wrong input or options, or a call that failed; one sentence on standard error says why",
    INTERRUPTED: "interrupted (Ctrl-C)",
    BROKEN_PIPE: "whoever read the output closed it (as with | head)",
}
"""What each code means, for the help and docs/cli.md."""
