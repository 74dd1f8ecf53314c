"""Which machine a process is on, and where the ranks of a job on several meet."""

import socket

from pullback.distributed import HashStore, PrefixStore, TCPStore
from pullback.distributed.meeting import hosts, pmi


def test_ranks_are_mapped_to_machines_by_runs():
    assert hosts.mapping(["a"] * 4) == "(vector,(0,1,4))"
    assert hosts.mapping(["a", "a", "b", "b", "a"]) == "(vector,(0,1,2),(1,1,2),(0,1,1))"


def test_a_machine_is_the_same_for_all_its_processes_and_no_loopback_address_is_told():
    assert hosts.identity() == hosts.identity()
    found = hosts.addresses()
    assert found
    assert found == ["127.0.0.1"] or not any(one.startswith("127.") for one in found)
    for one in found:
        socket.inet_aton(one)


def test_a_store_tells_by_which_address_it_is_reached():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    assert store.reached_by() == PrefixStore("x", store).reached_by() == "127.0.0.1"
    assert PrefixStore("x", HashStore()).reached_by() == ""
    store.close()


def test_ranks_of_one_machine_meet_on_its_loopback():
    store = HashStore()
    store.set("pullback/host/1", hosts.identity())
    place = pmi.meeting_in(store, 0, 2)
    assert place == pmi.meeting_in(store, 1, 2)
    assert place.hosts == ("127.0.0.1",)
    assert place.mapping == "(vector,(0,1,2))"


def test_ranks_of_several_machines_meet_where_others_reach_the_first(monkeypatch):
    monkeypatch.setattr(hosts, "addresses", lambda store: ["10.1.2.3", "172.17.0.1"])
    store = HashStore()
    store.set("pullback/host/1", "another machine")
    place = pmi.meeting_in(store, 0, 2)
    assert place.hosts == ("10.1.2.3", "172.17.0.1")
    assert place.mapping == "(vector,(0,1,1),(1,1,1))"
    assert place.word
