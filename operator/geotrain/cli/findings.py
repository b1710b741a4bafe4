"""What a check found, and what to do about it. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final


class Level(StrEnum):
    """How bad it is. A note is worth knowing and no finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is what was looked at, ``action`` what would be right or what to run."""

    level: Level
    subject: str
    message: str
    action: str = ""

    @property
    def sentence(self) -> str:
        """Message and action in one line."""
        return f"{self.message}; {self.action}" if self.action else self.message


def ok(subject: str, message: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, subject, message)


def note(subject: str, message: str, action: str = "") -> Finding:
    """Worth knowing."""
    return Finding(Level.NOTE, subject, message, action)


def warning(subject: str, message: str, action: str = "") -> Finding:
    """It works, or works in part, and should be mended."""
    return Finding(Level.WARNING, subject, message, action)


def error(subject: str, message: str, action: str = "") -> Finding:
    """It does not work."""
    return Finding(Level.ERROR, subject, message, action)


_COUNTED: Final = (Level.ERROR, Level.WARNING)


def serious(found: Iterable[Finding]) -> list[Finding]:
    """Warnings and errors."""
    return [each for each in found if each.level in _COUNTED]


def errors(found: Iterable[Finding]) -> list[Finding]:
    """Errors alone."""
    return [each for each in found if each.level is Level.ERROR]


def summary(found: Sequence[Finding]) -> str:
    """``1 error, 2 warnings``, or that nothing was found."""
    counts = Counter(each.level for each in found)
    parts = [
        f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}"
        for level in _COUNTED
        if counts[level]
    ]
    return ", ".join(parts) or "no findings"


def lines(found: Sequence[Finding]) -> list[str]:
    """The report: subjects in order of appearance, each with what was found of it."""
    result: list[str] = []
    for subject in dict.fromkeys(each.subject for each in found):
        result.append(subject)
        for each in (one for one in found if one.subject == subject):
            result.append(f"  {each.level:<7}  {each.message}")
            if each.action:
                result.append(f"           -> {each.action}")
    return [*result, "", summary(found)]


def document(found: Sequence[Finding]) -> dict[str, Any]:
    """The report for programs."""
    return {
        "findings": [asdict(each) for each in found],
        "errors": len(errors(found)),
        "warnings": len(serious(found)) - len(errors(found)),
    }
