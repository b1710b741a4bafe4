"""Where the workers are: a list of URLs, or a file of them that is read again when it changes."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A worker: its base URL, which is its name too, and the rank whose GPU it shares."""

    url: str
    data_center: str = ""
    rank: int | None = None


class Directory:
    """The workers that ``source`` names: URLs with commas between them, or a path.

    The file is ``{"workers": [{"url": …, "dataCenter": …, "rank": …}]}``. A file that is missing
    or half-written leaves the list as it was, with a warning once.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._text = ""
        self._addresses: tuple[Address, ...] = ()
        self.loaded = False
        if source.startswith(("http://", "https://")):
            self._addresses = tuple(sorted({Address(url) for url in _urls(source)}))
            self.loaded = True

    def read(self) -> tuple[Address, ...]:
        """Return the workers that are named now, by URL."""
        if not self._source.startswith(("http://", "https://")):
            self._read_file()
        return self._addresses

    def _read_file(self) -> None:
        try:
            text = Path(self._source).read_text()
        except OSError as error:
            text = f"unreadable: {error}"
        if text == self._text:
            return
        self._text = text
        try:
            self._addresses = _parse(text)
            self.loaded = True
            _log.info("%d workers in %s", len(self._addresses), self._source)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.warning("keeping %d workers: %s: %r", len(self._addresses), self._source, error)


def _urls(source: str) -> list[str]:
    return [url.strip().rstrip("/") for url in source.split(",") if url.strip()]


def _parse(text: str) -> tuple[Address, ...]:
    entries = json.loads(text)["workers"]
    found = {
        entry["url"].rstrip("/"): Address(
            entry["url"].rstrip("/"), str(entry.get("dataCenter", "")), entry.get("rank")
        )
        for entry in entries
    }
    return tuple(found[url] for url in sorted(found))
