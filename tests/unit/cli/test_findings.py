"""How findings are counted and printed."""

from geotrain.cli import findings

FOUND = [
    findings.ok("hub", "it is up"),
    findings.error("dc-west", "it is down", "start it"),
    findings.note("hub", "by the way"),
    findings.warning("dc-west", "it is slow"),
    findings.warning("dc-east", "it is slow", "push it"),
]


def test_notes_are_no_findings() -> None:
    assert findings.summary(FOUND) == "1 error, 2 warnings"
    assert findings.summary(FOUND[:1] + FOUND[2:4]) == "1 warning"
    assert findings.summary(FOUND[:1]) == "no findings"
    assert len(findings.serious(FOUND)) == 3
    assert findings.errors(FOUND) == [FOUND[1]]


def test_a_report_goes_by_subject_and_says_what_to_do() -> None:
    assert findings.lines(FOUND) == [
        "hub",
        "  ok       it is up",
        "  note     by the way",
        "dc-west",
        "  error    it is down",
        "           -> start it",
        "  warning  it is slow",
        "dc-east",
        "  warning  it is slow",
        "           -> push it",
        "",
        "1 error, 2 warnings",
    ]


def test_programs_get_the_same() -> None:
    document = findings.document(FOUND)
    assert (document["errors"], document["warnings"]) == (1, 2)
    assert document["findings"][1] == {
        "level": "error",
        "subject": "dc-west",
        "message": "it is down",
        "action": "start it",
    }


def test_a_sentence_holds_the_action() -> None:
    assert FOUND[1].sentence == "it is down; start it"
    assert FOUND[3].sentence == "it is slow"
