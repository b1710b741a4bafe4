import io

from examples.trainer.reports import Reports


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
