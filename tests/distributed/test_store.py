"""Stores: the same dict for all, wherever it is kept."""

import socket
import threading
import time
from datetime import timedelta

import pytest

import pullback.distributed as dist


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        yield dist.HashStore()
    elif request.param == "file":
        yield dist.FileStore(str(tmp_path / "store"), 2)
    elif request.param == "prefix":
        yield dist.PrefixStore("job", dist.HashStore())
    else:
        made = dist.TCPStore("127.0.0.1", 0, is_master=True)
        yield made
        made.close()


def test_a_store_keeps_values(store):
    store.set("a", "1")
    assert store.get("a") == b"1"
    assert store.add("n", 2) == 2
    assert store.add("n", 3) == 5
    store.append("a", "2")
    assert store.get("a") == b"12"
    assert store.compare_set("a", "12", "new") == b"new"
    assert store.compare_set("a", "12", "other") == b"new"
    assert store.check(["a", "n"])
    assert not store.check(["a", "b"])
    assert store.num_keys() == 2
    assert store.delete_key("a")
    assert not store.delete_key("a")
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["x", "y"]) == [b"1", b"2"]


def test_get_waits_for_a_key(store):
    threading.Timer(0.05, store.set, ("late", "here")).start()
    assert store.get("late") == b"here"


def test_a_key_that_never_comes_is_an_error_in_time(store):
    started = time.monotonic()
    with pytest.raises(dist.DistStoreError, match=r"Nobody set \['never'\] within 0\.1 s"):
        store.wait(["never"], 0.1)
    assert time.monotonic() - started < 5


def test_how_long_a_store_waits_is_a_timedelta(store):
    store.set_timeout(timedelta(minutes=2))
    assert store.timeout == timedelta(seconds=120)
    assert dist.PrefixStore("a", store).timeout == store.timeout


def test_many_threads_count_right(store):
    def count():
        for _ in range(20):
            store.add("n", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.add("n", 0) == 80


def test_clients_of_a_tcp_store_see_its_masters_values():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    client = dist.TCPStore("127.0.0.1", master.port)
    master.set("a", "1")
    assert client.get("a") == b"1"
    client.close()
    master.close()


def test_a_tcp_store_that_is_not_there_is_an_error_in_time():
    started = time.monotonic()
    with pytest.raises(dist.DistNetworkError, match=r"No store answers at 127\.0\.0\.1:9"):
        dist.TCPStore("127.0.0.1", 9, timeout=0.2)
    assert time.monotonic() - started < 5


def test_stores_have_queues_keys_and_clones(store):
    for value in ("x", "y"):
        store.queue_push("work", value)
    assert store.queue_len("work") == 2
    assert [store.queue_pop("work"), store.queue_pop("work", block=False)] == [b"x", b"y"]
    with pytest.raises(dist.QueueEmptyError, match="'work' is empty"):
        store.queue_pop("work", block=False)
    store.set("key", 1)
    assert "key" in store.list_keys()
    assert store.clone().get("key") == b"1"
    assert store.has_extended_api()


def test_who_comes_to_a_key_waits_for_the_others(store):
    for _ in range(2):  # the key may be used again
        waiting = [threading.Thread(target=store.barrier, args=("here", 3)) for _ in range(2)]
        for one in waiting:
            one.start()
        store.barrier("here", 3)
        for one in waiting:
            one.join(5.0)
            assert not one.is_alive()
    store.barrier("nobody", 0)
    with pytest.raises(dist.DistStoreError, match="there"):
        store.barrier("there", 2, 0.05)


def test_a_store_for_nobody_is_refused_and_one_may_listen_already():
    with pytest.raises(ValueError, match="1 or more"):
        dist.TCPStore("127.0.0.1", 0, 0, True)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    store = dist.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=listening.detach())
    store.set("a", "b")
    other = dist.TCPStore("127.0.0.1", port, use_libuv=False)
    assert other.get("a") == b"b"
    assert (store.libuvBackend, other.libuvBackend) == (True, False)
    other.close()
    store.close()
