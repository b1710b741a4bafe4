"""What holds for every cluster: never too much on a node, and exact where shapes do not compete."""

from collections import defaultdict
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from geotrain.fitting import Fits, Occupancy, gang_fits, victims
from support.fitting import node, prefill, rank, stranger

SMALL = st.integers(0, 4)
CENTERS = st.sampled_from(["dc-east", "dc-west"])


@st.composite
def clusters(draw):
    """Up to four nodes in two data centres, with some pods of every role on them."""
    nodes = [
        node(f"n{i}", draw(CENTERS), cpu=draw(SMALL) * 1000, gpu=draw(SMALL), pods=draw(SMALL))
        for i in range(draw(st.integers(0, 4)))
    ]
    names = st.sampled_from([n.name for n in nodes] or ["gone"])
    pods = [
        *(prefill(i, node=draw(names), cpu=draw(SMALL) * 500) for i in range(draw(SMALL))),
        *(rank(i, job="old", node=draw(names)) for i in range(draw(st.integers(0, 2)))),
        *(stranger(f"s{i}", node=draw(names)) for i in range(draw(st.integers(0, 1)))),
    ]
    return nodes, pods


@st.composite
def gangs(draw, *, alike):
    """Up to four ranks, of one shape in each data centre or each of its own."""
    shape = {c: (draw(SMALL), draw(SMALL)) for c in ("dc-east", "dc-west")}
    gang = []
    for number in range(draw(st.integers(1, 4))):
        center = draw(CENTERS)
        gpu, cpu = shape[center] if alike else (draw(SMALL), draw(SMALL))
        gang.append(rank(number, center, gpu=gpu, cpu=cpu * 500))
    return gang


def overcommitted(nodes, pods, gang, assignment):
    """The (node, resource) pairs that would be exceeded with prefill gone."""
    there = Occupancy(nodes, pods)
    taken = defaultdict(lambda: defaultdict(int))
    for pod in gang:
        for resource, amount in pod.requests.items():
            taken[assignment[pod.key]][resource] += amount
    return [
        (name, resource)
        for name, amounts in taken.items()
        for resource, amount in amounts.items()
        if amount > 0 and amount > there.free(name).get(resource, 0)
    ]


def feasible(nodes, pods, gang):
    """By trying every assignment."""
    centers = {n.name: n.data_center for n in nodes}
    return any(
        all(centers[name] == pod.data_center for pod, name in zip(gang, names, strict=True))
        and not overcommitted(
            nodes, pods, gang, {p.key: n for p, n in zip(gang, names, strict=True)}
        )
        for names in product(centers, repeat=len(gang))
    )


@given(clusters(), gangs(alike=False))
def test_no_assignment_exceeds_a_node(cluster, gang):
    nodes, pods = cluster
    answer = gang_fits(nodes, pods, gang)
    if isinstance(answer, Fits):
        assert not overcommitted(nodes, pods, gang, answer.assignment)
        assert feasible(nodes, pods, gang)
    else:
        assert all(reason.sentence for reason in answer.reasons)


@given(clusters(), gangs(alike=True))
def test_the_answer_is_exact_for_gangs_of_one_shape_a_data_centre(cluster, gang):
    nodes, pods = cluster
    assert isinstance(gang_fits(nodes, pods, gang), Fits) == feasible(nodes, pods, gang)


@given(clusters(), gangs(alike=False))
def test_the_order_in_which_things_are_listed_changes_nothing(cluster, gang):
    nodes, pods = cluster
    turned = gang_fits(nodes[::-1], pods[::-1], gang[::-1])
    assert turned == gang_fits(nodes, pods, gang)


@given(clusters(), st.integers(0, 8), st.integers(0, 2))
def test_victims_make_room_and_none_leaves_in_vain(cluster, cpu, pods_wanted):
    nodes, pods = cluster
    there = Occupancy(nodes, pods)
    wanted = {"cpu": cpu * 500, "pods": pods_wanted}
    for name in there.nodes:
        leaving = victims(there, name, wanted)
        if leaving is None:
            assert any(n > 0 and there.free(name)[r] < n for r, n in wanted.items())
            continue
        given_back = [*leaving, None]
        for spared in given_back:
            after = Occupancy(nodes, [p for p in pods if p not in leaving or p is spared])
            free = after.free(name, sparing=True)
            enough = all(free[r] >= n for r, n in wanted.items() if n)
            assert enough is (spared is None)
