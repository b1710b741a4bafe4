import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.striping.frames import HELLO_BYTES, MAX_BUFFER, Hello, Kind, ProtocolError

ADDRESS = st.ip_addresses(v=4).map(str)
HELLO = st.builds(
    Hello,
    stream=st.binary(min_size=16, max_size=16),
    address=ADDRESS,
    port=st.integers(0, 2**16 - 1),
    lane=st.integers(0, 2**16 - 1),
    lanes=st.integers(0, 2**16 - 1),
    flow=st.integers(0, 2**32 - 1),
    reverse=st.integers(0, 2**32 - 1),
    buffer=st.integers(1, MAX_BUFFER),
    established=st.booleans(),
    hops=st.lists(ADDRESS, max_size=2).map(tuple),
)


@given(HELLO)
def test_a_hello_reads_back_as_it_was_written(hello: Hello) -> None:
    data = hello.encode()
    assert len(data) == HELLO_BYTES == 64
    assert Hello.decode(data) == hello


def test_each_hop_takes_itself_off_the_route() -> None:
    hello = Hello(bytes(16), "10.0.0.9", 29500, hops=("10.0.0.1", "10.0.0.9"))
    assert hello.kind is Kind.RELAY
    hop, rest = hello.passed_on()
    assert hop == "10.0.0.1"
    hop, last = rest.passed_on()
    assert hop == "10.0.0.9"
    assert last.kind is Kind.DIRECT


def test_three_hops_are_too_many() -> None:
    with pytest.raises(ValueError, match="at most 2"):
        Hello(bytes(16), "10.0.0.9", 1, hops=("10.0.0.1",) * 3).encode()


def change(at: int, value: int) -> bytes:
    data = bytearray(Hello(bytes(16), "10.0.0.9", 1).encode())
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (change(0, ord("H")), "hello of geotrain"),
        (change(4, 3), "version 3"),
        (change(5, Kind.RELAY), "cannot have 0 hops"),
        (change(10, 1), "cannot have 1 hops"),
        (change(10, 3), "cannot have 3 hops"),
        (change(42, 255), "buffer of"),
    ],
)
def test_what_is_no_hello_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        Hello.decode(data)
