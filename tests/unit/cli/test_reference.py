from geotrain.cli import reference


def test_the_page_is_written_and_a_difference_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reference.main(["--check"]) == 1
    (tmp_path / "docs").mkdir()
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    reference.PAGE.write_text("old")
    assert reference.main(["--check"]) == 1
    assert "docs/cli.md differs from the commands; run make crds" in capsys.readouterr().err


def test_every_command_is_there_with_its_options():
    text = reference.page()
    for command in ("join", "plan", "timeline", "topology import", "version"):
        assert f"## geotrain {command}" in text
    assert "| `--output`, `-o` | table, wide, json, yaml | `table` |" in text
    assert "| `FILES` | path, repeatable | required |" in text
    assert "# without a cluster\ngeotrain plan -f examples/three-dc" in text
    assert "| 1 | done, and the answer is no" in text
    assert "| `--grid`, `--no-grid` |  |  |" in text
