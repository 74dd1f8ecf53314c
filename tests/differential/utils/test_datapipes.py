"""Data pipes as programs, run by both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")

_START = """
D, I, M = imp("torch.utils.data"), imp("torch.utils.data.datapipes.iter"), imp("torch.utils.data.datapipes.map")
import functools, operator
W, S = I.IterableWrapper, M.SequenceWrapper
odd = functools.partial(operator.and_, 1)
def shown(make):
    try: print(make())
    except Exception as error: print(type(error).__name__)
"""

PROGRAMS = {
    "names": "print(W([1]), W([1]).map(abs), repr(S('ab'))); print(sorted(set(I.__all__) - {'RoutedDecoder'}), sorted(M.__all__))",
    "one iterator at a time": """
        p = W(range(5)); a = iter(p); next(a); b = iter(p); print(next(b)); shown(lambda: next(a)); print(list(p), list(p))
    """,
    "map": """
        print(list(W(range(3)).map(abs)), list(W([(1, 2), (3, 4)]).map(operator.neg, input_col=0)))
        print(list(W([(1, 2, 5), (3, 4, 6)]).map(operator.add, input_col=[0, 2])), list(W([(1, 2)]).map(operator.add, input_col=[0, 1], output_col=-1)))
        print(list(W([[1, 2]]).map(operator.neg, input_col=1, output_col=0)), list(W([{'a': 1}]).map(operator.neg, input_col='a', output_col='b')))
        shown(lambda: W([1]).map(abs, output_col=1)); shown(lambda: W([1]).map(abs, input_col=[0, 1]))
        shown(lambda: W([1]).map(abs, input_col=0, output_col=[1, 2]))
    """,
    "local functions warn": "print(list(W(range(3)).map(lambda x: x + 1)))",
    "filter": "print(list(W(range(4)).filter(bool)), list(W([(1, 0), (0, 1)]).filter(bool, input_col=1))); shown(lambda: list(W([1]).filter(abs))); shown(lambda: len(W([1]).filter(bool)))",
    "batch": """
        for drop in (False, True): p = W(range(5)).batch(2, drop_last=drop); print(list(p), len(p), type(next(iter(p))).__name__)
        shown(lambda: W([1]).batch(0)); print(list(W([[1, 2], [3]]).collate(collate_fn=sum)), list(W([[1, 2]]).collate()))
    """,
    "unbatch": """
        for level in (0, 1, 2, -1, 3, -2): shown(lambda: list(W([[[1, 2], [3]], [[4]]]).unbatch(level)))
    """,
    "shuffle": """
        print(list(W(range(10)).shuffle(buffer_size=4).set_seed(3)), list(W(range(4)).shuffle().set_shuffle(False)))
        torch.manual_seed(0); p = W(range(10)).shuffle(); print(list(p), list(p)); print(list(W([[1, 2], [3]]).shuffle(unbatch_level=1).set_seed(0)))
        shown(lambda: W([1]).shuffle(buffer_size=0)); print(list(S(range(6)).shuffle().set_seed(2)), list(S('abc').shuffle(indices=[2, 0]).set_seed(1)))
    """,
    "several": """
        a, b = W(range(3)), W('abcd')
        print(list(a.zip(b)), len(a.zip(b)), list(a.mux(b)), len(a.mux(b)), list(a.concat(b)), len(a + b), list(b.mux(a)))
        shown(lambda: I.Zipper()); shown(lambda: I.Concater(a, [1]))
    """,
    "fork": """
        a, b = W(range(4)).fork(2); print(list(a), list(b), len(a), list(zip(a, b)), W([1]).fork(1))
        a, b = W(range(4)).fork(2, buffer_size=2); shown(lambda: list(a))
        a, b = W([[1]]).fork(2, copy="deep"); print(next(iter(a)) is next(iter(b)))
        shown(lambda: W([1]).fork(0)); shown(lambda: W([1]).fork(2, copy="x"))
    """,
    "a fork begun again": "a, b = W(range(4)).fork(2); i = iter(a); next(i); j = iter(b); print(next(j)); k = iter(a); print(next(k)); shown(lambda: next(j))",
    "a fork without limit": "a, b = W(range(3)).fork(2, buffer_size=-1); print(list(a), list(b))",
    "demux": """
        a, b = W(range(6)).demux(2, odd); print(list(a), list(b)); shown(lambda: len(a)); shown(lambda: list(W([2]).demux(2, abs)[0]))
        a, b = W(range(6)).demux(2, {0: 0, 1: 1, 2: None, 3: 1, 4: 0, 5: 0}.get, drop_none=True); print(list(a), list(b))
        a, b = W([0] * 3).demux(2, abs, buffer_size=2); shown(lambda: list(b)); shown(lambda: list(W([2]).demux(2, {}.get)[0]))
    """,
    "groupby": """
        for more in ({}, {"keep_key": True}, {"group_size": 2}, {"buffer_size": 3}, {"buffer_size": 4, "group_size": 3, "guaranteed_group_size": 2, "drop_remaining": True},
                     {"buffer_size": 3, "group_size": 3}, {"guaranteed_group_size": 2}, {"group_size": 0}):
            shown(lambda: list(W([0, 1, 2, 4, 6, 3, 8, 5]).groupby(odd, **more)))
    """,
    "sharding": """
        for number in (0, 1, 2): p = W(range(7)).sharding_filter(); p.apply_sharding(3, number); print(list(p), len(p))
        shown(lambda: W([1]).sharding_filter().apply_sharding(2, 2)); G = imp("torch.utils.data.graph_settings")
        P = imp("torch.utils.data.datapipes.iter.sharding").SHARDING_PRIORITIES
        p = W(range(12)).sharding_filter(); p.apply_sharding(2, 1, P.DISTRIBUTED); p.apply_sharding(3, 2, P.MULTIPROCESSING); print(list(p), len(p))
        shown(lambda: p.apply_sharding(2, 1)); shown(lambda: G.apply_sharding(W([1]).sharding_filter().map(abs).sharding_filter(), 2, 0))
        print(G.get_all_graph_pipes(imp("torch.utils.data.graph").traverse_dps(W([1]).zip(W([2])).batch(2))))
    """,
    "samplers": "print(list(I.Sampler(W(range(4)))), len(I.Sampler(W(range(4)))))",
    "keys": """
        p = S(range(5)); print(list(p.map(abs)), S({'a': 1})['a'], len(p.batch(2)), p.batch(2)[2], list(p.batch(2, drop_last=True)), p.concat(S('ab'))[6], p.zip(S('ab'))[1], len(p.zip(S('ab'))))
        for make in (lambda: p.batch(2)[3], lambda: p.zip(S('ab'))[2], lambda: p.concat(S('a'))[9], lambda: M.Zipper(), lambda: M.Concater([1])): shown(make)
    """,
    "classes of the user's": """
        class Own(D.IterDataPipe):
            resets = 0
            def __init__(self, source): self.source = source
            def __iter__(self): yield from self.source
            def reset(self): self.resets += 1
            def __len__(self): return 2
        p = Own([1, 2]); print(list(p), p.resets); i = iter(p); print(p.resets); next(i); print(p.resets, len(p.batch(2)))
        D.functional_datapipe("owned_by_test")(Own); print(list(W([3]).owned_by_test()))
        try: D.functional_datapipe("owned_by_test")(Own)
        except Exception as error: print(type(error).__name__)
        del D.IterDataPipe.functions["owned_by_test"]; shown(lambda: W([1]).owned_by_test)
    """,
    "pipes that are iterators": """
        class Counts(D.IterDataPipe):
            def __init__(self): self.n = 0
            def __iter__(self): return self
            def __next__(self):
                self.n += 1
                if self.n > 3: raise StopIteration
                return self.n
            def reset(self): self.n = 0
        p = Counts(); print(list(p), list(p)); i = iter(p); next(i); j = iter(p); print(next(j)); shown(lambda: next(i)); shown(lambda: list(D.IterDataPipe()))
    """,
    "determinism": """
        @D.non_deterministic
        class Random(D.IterDataPipe): pass
        print(isinstance(Random(), D.IterDataPipe))
        with D.guaranteed_datapipes_determinism(): shown(lambda: Random())
    """,
    "copies": """
        import copy, pickle
        p = W(range(6)).batch(2); i = iter(p); next(i); print(list(pickle.loads(pickle.dumps(p))), next(i), list(copy.deepcopy(p)))
        a, b = W(range(3)).fork(2); c, d = copy.deepcopy([a, b]); print(list(c), list(d), list(a))
    """,
    "chunks": "C = D.DataChunk; print(C([1, 2]), C([1, 2]).as_str('>'), list(C([1]).raw_iterator()), C([1]) == [1], C([1, 2]).items)",
    "hooks": """
        import pickle
        D.IterDataPipe.set_reduce_ex_hook(lambda pipe: (list, ([7],)))
        try: print(pickle.loads(pickle.dumps(W([1]))))
        finally: D.IterDataPipe.set_reduce_ex_hook(None)
    """,
    "files": """
        import os, tempfile
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(d + "/s")
            for name in ("a.txt", "b.md", "s/c.txt"): print(open(f"{d}/{name}", "w").write(name))
            rel = lambda pipe: [os.path.relpath(path, d) for path in pipe]
            print(rel(I.FileLister(d)), rel(I.FileLister(d, "*.txt", recursive=True)), rel(W([d]).list_files(masks=["*.md"])))
            print([s.read() for _, s in W([d + "/a.txt"]).open_files()], [s.read() for _, s in W([d + "/a.txt"]).open_files(mode="b")])
            print([s for _, s in W([d + "/a.txt"]).open_files().read_from_stream(chunk=2)])
            shown(lambda: W([d]).open_files(mode="q")); shown(lambda: len(I.FileLister(d)))
    """,
    "loaders": """
        def read(**options):
            torch.manual_seed(1); loader = D.DataLoader(W(range(8)).shuffle().sharding_filter(), batch_size=3, **options)
            print([batch.tolist() for batch in loader], [batch.tolist() for batch in loader])
        read(); read(shuffle=True); read(shuffle=False)
        print([b.tolist() for b in D.DataLoader(S(range(5)).map(abs), batch_size=2)], len(D.DataLoader(W(range(5)), batch_size=2, shuffle=True)))
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_both_print_the_same(program):
    import textwrap

    agree(_START + textwrap.dedent(program))
