import logging

from geotrain.roles.router.directory import Address, Directory


def test_urls_are_a_list():
    directory = Directory("http://b:1/, http://a:1,http://a:1,")
    assert directory.read() == (Address("http://a:1"), Address("http://b:1"))
    assert directory.loaded


def test_a_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "workers.json"
    directory = Directory(str(path))
    assert directory.read() == ()
    assert not directory.loaded
    path.write_text('{"workers": [{"url": "http://a:1/", "dataCenter": "west", "rank": 3}]}')
    assert directory.read() == (Address("http://a:1", "west", 3),)
    path.write_text('{"workers": []}')
    assert directory.read() == ()
    assert directory.loaded


def test_a_broken_file_changes_nothing_and_is_told_once(tmp_path, caplog):
    path = tmp_path / "workers.json"
    path.write_text('{"workers": [{"url": "http://a:1"}]}')
    directory = Directory(str(path))
    directory.read()
    with caplog.at_level(logging.WARNING):
        for text in ("{", "{}", "[]", '{"workers": [{}]}'):
            path.write_text(text)
            assert directory.read() == (Address("http://a:1"),)
            assert directory.read() == (Address("http://a:1"),)
    assert len(caplog.records) == 4
