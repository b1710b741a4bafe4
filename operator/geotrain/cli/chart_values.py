"""The schema of ``hub.settings`` in the chart: ``python -m geotrain.cli.chart_values [--check]``.

The chart's other values are the chart's own; these are settings of the controller, which would
refuse a wrong one only after the installation.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from geotrain.settings import Settings

SCHEMA: Final = Path("charts/geotrain/values.schema.json")

_BY_THE_CHART: Final = ("sidecarImage", "healthPort")
"""Settings of the controller that the chart makes itself."""


def settings_schema() -> dict[str, Any]:
    """JSON schema of the settings that a person may give."""
    written = Settings.model_json_schema(by_alias=True)
    schema: dict[str, Any] = _plain(written, written["$defs"])
    for name in _BY_THE_CHART:
        del schema["properties"]["controller"]["properties"][name]
    return schema


def completed(text: str) -> str:
    """The chart's schema with the settings' in its place."""
    document = json.loads(text)
    document["$defs"]["settings"] = settings_schema()
    return json.dumps(document, indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schema, or only compare; returns the exit status."""
    text = SCHEMA.read_text(encoding="utf-8")
    wanted = completed(text)
    if arguments != ["--check"]:
        SCHEMA.write_text(wanted, encoding="utf-8")
        return 0
    if text == wanted:
        return 0
    print(f"{SCHEMA} differs from the settings; run make crds", file=sys.stderr)
    return 1


def _plain(schema: Any, definitions: dict[str, Any]) -> Any:
    """Without references, titles and defaults: Helm's errors name paths, values.yaml defaults."""
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    kept = {k: v for k, v in schema.items() if k not in ("title", "default", "$defs")}
    return {name: _plain(value, definitions) for name, value in kept.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
