import io
import json

from examples.trainer.reports import Reports, Trace


def test_a_line_goes_to_the_stream_and_to_the_end_of_the_file(tmp_path):
    path, stream = tmp_path / "log", io.StringIO()
    path.write_text("before\n")
    reports = Reports(str(path), stream)
    reports.write(iteration=0, loss=1.5)
    assert stream.getvalue() == '{"iteration": 0, "loss": 1.5}\n'
    assert path.read_text() == 'before\n{"iteration": 0, "loss": 1.5}\n'


def test_without_a_file_only_the_stream_is_written():
    stream = io.StringIO()
    Reports(None, stream).write(iteration=0)
    assert stream.getvalue() == '{"iteration": 0}\n'


def test_a_trace_has_a_line_for_each_action(tmp_path):
    trace = Trace(str(tmp_path / "new"), 3)
    trace.write(7, "1F0", 1.5, 2.0, 2.5)
    trace.write(7, "1B0", None, 3.0, 4.0)
    lines = (tmp_path / "new" / "actions-r3.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"iteration": 7, "action": "1F0", "begin": 2.0, "end": 2.5, "arrived": 1.5},
        {"iteration": 7, "action": "1B0", "begin": 3.0, "end": 4.0, "arrived": None},
    ]
