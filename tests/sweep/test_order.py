"""Jobs in the order of their dependencies: the longest chain first, and failures downwards."""

from raxalign.sweep.order import Holds, Order, SweepJob


def stage(key, *inputs, cost=1.0, needs=Holds.WORKER):
    return SweepJob(key, False, frozenset(inputs), cost, needs)


def trial(key, *inputs, cost=1.0, needs=Holds.WORKER):
    return SweepJob(key, True, frozenset(inputs), cost, needs)


def made(*jobs):
    order = Order()
    order.add(jobs)
    return order


def taken(order, fits=lambda _: True):
    """Take all that is ready, without an end of anything."""
    found = []
    while (job := order.take(fits)) is not None:
        found.append(job.key)
    return found


def test_a_step_is_ready_when_its_own_inputs_ended_and_not_when_all_stages_did():
    order = made(stage("a"), stage("b"), trial("of a", "a"), trial("of both", "a", "b"))
    assert taken(order) == ["a", "b"]
    order.finish("a")
    assert taken(order) == ["of a"]
    order.finish("b")
    assert taken(order) == ["of both"]
    assert not order.empty
    order.finish("of a")
    order.finish("of both")
    assert order.empty


def test_the_head_of_the_longest_chain_starts_first():
    order = made(
        stage("short", cost=3.0),
        stage("head", cost=1.0),
        stage("middle", "head", cost=1.0),
        trial("end", "middle", cost=2.5),
        trial("alone", cost=4.0),
    )
    assert taken(order) == ["head", "alone", "short"]


def test_equal_chains_start_in_the_order_of_the_plan():
    assert taken(made(*(trial(key) for key in "cab"))) == ["c", "a", "b"]


def test_what_there_is_no_room_for_does_not_hold_up_what_needs_less():
    order = made(trial("whole", cost=9.0), stage("cores", needs=Holds.CPUS))
    job = order.take(lambda job: job.needs is Holds.CPUS)
    assert job.key == "cores"


def test_nothing_shorter_overtakes_a_group_that_waits_for_room():
    group = trial("group", cost=9.0, needs=Holds.GROUP)
    order = made(group, trial("small"), stage("long", cost=99))
    assert taken(order, lambda job: job.needs is not Holds.GROUP) == ["long"]


def test_a_failure_takes_exactly_what_depends_on_it():
    stages = (stage("a"), stage("b"), stage("c", "a"))
    order = made(*stages, trial("x", "c", "b"), trial("y", "b"), trial("z"))
    taken(order)
    assert [job.key for job in order.fail("a")] == ["c", "x"]
    order.finish("b")
    assert taken(order) == ["y"]
    for key in ("z", "y"):
        order.finish(key)
    assert order.empty


def test_steps_can_be_added_while_others_run():
    order = made(stage("a"), trial("x", "a"))
    assert taken(order) == ["a"]
    order.add([stage("a"), stage("b", "a"), trial("y", "b"), trial("z", "ended before")])
    assert taken(order) == ["z"]
    order.finish("a")
    assert taken(order) == ["b", "x"]
    order.finish("b")
    assert taken(order) == ["y"]


def test_what_runs_and_what_waits_is_counted():
    order = made(stage("a"), trial("x", "a"), trial("y", needs=Holds.GROUP))
    assert (order.ready, order.waiting) == (2, 1)
    taken(order)
    assert order.held == {Holds.WORKER: 1, Holds.GROUP: 1}
    order.finish("y")
    assert order.held[Holds.GROUP] == 0
    assert (order.ready, order.waiting, list(order.running)) == (0, 1, ["a"])


def test_thousands_of_steps_are_taken_and_ended_without_a_loop_over_all():
    order = made(stage("a"), *(trial(str(number), "a") for number in range(3_000)))
    assert taken(order) == ["a"]
    order.finish("a")
    looked = 0

    def fits(job):
        nonlocal looked
        looked += 1
        return True

    while (job := order.take(fits)) is not None:
        order.finish(job.key)
    assert looked == 3_000
    assert order.empty


def test_what_a_group_left_is_ready_when_it_is_resumed_and_goes_first():
    order = made(trial("x", cost=2.0, needs=Holds.GROUP), trial("y", cost=1.0), trial("z"))
    assert order.take(lambda _: True).key == "x"
    order.set_aside("x")
    assert (order.held[Holds.GROUP], order.ready, order.aside, order.waiting) == (0, 2, 1, 0)
    assert order.take(lambda _: True).key == "y"
    order.resume(1)
    assert order.aside == 0
    again = order.take(lambda _: True)
    assert (again.key, again.needs) == ("x", Holds.WORKER)
    assert taken(order) == ["z"]
    order.finish("x")
    assert order.held == {Holds.GROUP: 0, Holds.WORKER: 2}


def test_no_order_is_empty_while_a_step_runs_or_a_group_has_left_something():
    order = made(trial("x", needs=Holds.GROUP))
    assert order.take(lambda _: True) is not None
    assert not order.empty
    order.set_aside("x")
    assert not order.empty
    order.resume(1)
    assert taken(order) == ["x"]
    assert not order.empty
    order.finish("x")
    assert order.empty


def test_a_step_that_is_put_back_is_taken_again_in_its_place_and_ends_once():
    order = made(stage("a", cost=5.0), trial("x", "a"), trial("y", cost=2.0), trial("z"))
    assert taken(order) == ["a", "y", "z"]
    for key in ("z", "a"):
        order.put_back(key)
    assert (order.held[Holds.WORKER], order.ready, order.waiting) == (1, 2, 1)
    assert taken(order) == ["a", "z"]
    order.finish("a")
    assert taken(order) == ["x"]
    for key in ("x", "y", "z"):
        order.finish(key)
    assert (order.empty, order.held[Holds.WORKER]) == (True, 0)
