import pytest

from geotrain.fitting.quantities import add, largest, parse_amount, show_amount


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", "500m", 500),
        ("cpu", "1.5", 1500),
        ("cpu", ".5", 500),
        ("cpu", "0.0001", 1),  # rounded up
        ("cpu", "100n", 1),
        ("cpu", 2, 2000),
        ("memory", "64Mi", 64 * 2**20),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129_000_000),
        ("memory", "1E3", 1000),
        ("memory", "1E", 10**18),
        ("memory", "1Ei", 2**60),
        ("memory", "500k", 500_000),
        ("memory", "1500m", 2),
        ("example.com/gpu", "4", 4),
        ("example.com/gpu", "+4", 4),
        ("cpu", "-1", -1000),
    ],
)
def test_quantities_are_read_as_the_scheduler_reads_them(resource, text, amount):
    assert parse_amount(resource, text) == amount


@pytest.mark.parametrize("text", ["", "abc", "1Zi", "1 Gi", "1e", "--1", "1K"])
def test_what_is_no_quantity_is_refused_with_an_example(text):
    with pytest.raises(
        ValueError, match=r"is not a quantity of cpu; write one like 500m, 2 or 4Gi"
    ):
        parse_amount("cpu", text)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1.5 cpu"),
        ("cpu", 50, "0.05 cpu"),
        ("memory", 4 * 2**30, "4Gi memory"),
        ("memory", 3 * 2**29, "1.5Gi memory"),
        ("memory", 64 * 2**20, "64Mi memory"),
        ("memory", 2048, "2Ki memory"),
        ("memory", 12, "12 memory"),
        ("ephemeral-storage", 2**30, "1Gi ephemeral-storage"),
        ("hugepages-2Mi", 2**22, "4Mi hugepages-2Mi"),
        ("example.com/gpu", 4, "4 example.com/gpu"),
        ("pods", 2**31, "2147483648 pods"),
    ],
)
def test_amounts_are_shown_as_people_write_them(resource, amount, text):
    assert show_amount(resource, amount) == text


def test_sums_and_maxima_cover_the_resources_of_both():
    left, right = {"cpu": 1, "a": 2}, {"cpu": 3, "b": 4}
    assert add(left, right) == {"cpu": 4, "a": 2, "b": 4}
    assert largest(left, right) == {"cpu": 3, "a": 2, "b": 4}
