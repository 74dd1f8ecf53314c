"""Mistakes that type checkers find: those marked, and no others."""

import pullback as torch
import pullback.distributed as dist
import pullback.nn.functional as F
from pullback.autograd import graph

x = torch.ones(2, 3)

x.summ()  # wrong
torch.mul(x)  # wrong
x.sum(dims=1)  # wrong
torch.zeros("a")  # wrong
torch.float33  # wrong
F.softmax(x, dims=1)  # wrong
torch.nn.Linear(3)  # wrong
torch.tensor([1.0], dtype="float32")  # wrong
x.grad.shape  # wrong
torch.cat(x, dim="rows")  # wrong
x.reshape(2, "3")  # wrong
x.sort().value  # wrong
x.sum().backwards()  # wrong
torch.linalg.solve(x)  # wrong
F.cross_entropy(x, x, reduce_by="mean")  # wrong
torch.add(x, x, out="here")  # wrong
x.shape.rows  # wrong
torch.arrange(3)  # wrong
torch.nn.Linearr(3, 4)  # wrong
torch.optim.SGDD  # wrong
torch.autograd.gradd  # wrong
torch.utils.data.DataLoder  # wrong

# Of modules whose names load when first asked for, or are made from tables.
torch.autograd.graph.save_on_cpuu()  # wrong
graph.get_gradient_edge()  # wrong
graph.plann(x)  # wrong
torch.cuda.is_availabel()  # wrong
torch.cuda.device_count(1)  # wrong
torch.cuda.Streem()  # wrong
torch.cuda.synchronise()  # wrong
torch.backends.cudnn.benchmrak  # wrong
torch.backends.cuda.matmul.allow_tf33  # wrong
torch.backends.mkll  # wrong
torch.distributed.all_reduc(x)  # wrong
dist.broadcast(x, sorc=0)  # wrong
dist.init_process_groupp("gloo")  # wrong
torch.func.gradd  # wrong
torch.profiler.profle  # wrong
torch.fx.symbolic_trac  # wrong
torch.compiler.disabl  # wrong
torch.jit.scrpt  # wrong
torch.random.manual_sed  # wrong
torch.distributions.Norml  # wrong
torch.amp.autocst  # wrong
torch.futures.Futre  # wrong
torch.nn.attention.sdpa_kernl  # wrong
torch.nn.utils.rnn.pad_sequenc  # wrong
torch.nn.init.xavier_unifrm_  # wrong
torch.optim.lr_scheduler.StepLRR  # wrong
torch.export.exprt  # wrong
torch.hub.lod  # wrong
torch.autograd.forward_ad.make_dul  # wrong
torch.autograd.profiler.profil  # wrong
torch.sparse.mmm  # wrong
torch.nested.nested_tensr  # wrong
torch.accelerator.is_availabel  # wrong
torch.mps.is_availabl  # wrong
torch.cpu.is_availabl  # wrong
torch.distributed.rpc.rpc_syncc  # wrong
torch.distributed.checkpoint.sav  # wrong
torch.onnx.exprt  # wrong
torch.testing.assert_clos  # wrong
torch.serialization.loaad  # wrong
torch.autograd.functional.jacobin  # wrong
