"""Shapes, indexing and joining called in many ways: torch's results, or its type of exception.

A line is a call on both libraries, in which `x` is a matrix of 2 by 3 and `z` has no dimensions.
"""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")

CALLS = """
    x.roll("a")
    x.roll((1,2))
    x.roll((1,2),0)
    x.roll(1,(0,1))
    x.roll((),())
    x.roll(1,())
    x.roll(())
    x.roll(1.5,0)
    x.roll(1,5)
    torch.tensor(3.).roll(1,0)
    torch.tensor(3.).roll(1)
    x.roll(shifts=1,dims=1)
    x.roll(torch.tensor(1),0)
    x.roll([1,1],[0,0])
    torch.zeros(0,3).roll(1,0)
    torch.flip(x,1)
    x.flip(0,0)
    x.flip()
    x.flip(())
    torch.tensor(3.).flip(0)
    x.repeat(2)
    x.repeat(-1,2)
    x.repeat(repeats=(2,2))
    x.repeat()
    torch.tensor(1.).repeat()
    x.repeat(0,2)
    x.tile(2)
    x.tile(dims=(2,))
    x.flip(dims=(0,))
    x.permute(dims=(1,0))
    x.permute(1,1)
    x.permute(0)
    x.permute(0,5)
    x.permute(None)
    torch.permute(x,(1,0)).shape
    torch.permute(x,1)
    x.reshape(shape=(3,2)).shape
    x.expand(size=(2,3)).shape
    x.expand(-2,3)
    x.expand(-1,2,3)
    x.expand(2,2)
    x.expand(3)
    x.view(size=(3,2)).shape
    x.view(-1,-1)
    x.unsqueeze(1.5)
    x.squeeze(None)
    x.squeeze(1.5)
    torch.squeeze(x,None)
    x.squeeze((0,5))
    x.squeeze(()).shape
    x.squeeze((0,0))
    x.narrow(0,0.5,1)
    x.narrow(0,torch.tensor(0),1)
    x.narrow(0,0,0.5)
    x.narrow(0,3,0)
    x.narrow(0,-1,1)
    x.narrow(5,0,1)
    torch.cat(x)
    torch.cat([])
    torch.cat([x,x],None)
    torch.cat([x,x],0.5)
    torch.cat([x,x],5)
    torch.cat([x,torch.zeros(3)])
    torch.cat([torch.tensor(1.)])
    torch.cat([x,1])
    torch.cat([x,None])
    torch.stack(x)
    torch.stack([])
    torch.stack([x,x],4)
    torch.stack([x,x],-3).shape
    torch.stack([x,x[0]])
    x.chunk(0)
    x.chunk(2.5)
    x.chunk("a")
    x.chunk(2,5)
    torch.tensor(1.).chunk(1)
    x.split(0)
    x.split(-1)
    x.split(2.5)
    x.split([1,2])
    x.split("a")
    x.split(None)
    x.split(split_size=1)
    x.split(split_size_or_sections=1)
    torch.split(x,split_size_or_sections=1)
    x.split([1,1],dim=5)
    torch.tensor(1.).split(1)
    torch.tensor(1.).split([1])
    x.tril("a")
    x.tril(1.5)
    x.tril(None)
    torch.ones(3).tril()
    x.movedim(0,5)
    x.movedim((0,0),(0,1))
    x.movedim(0.5,1)
    x.unflatten(1,())
    x.unflatten(1,(2,2))
    x.unflatten(1,3).shape
    x.unflatten(5,(1,))
    x.flatten(1,0)
    x.flatten(5)
    x.flatten("a")
    x.diagonal(0,0,0)
    x.diagonal("a")
    x.select(0,5)
    x.select(0,0.5)
    x.select(5,0)
    x.select(0,torch.tensor(1))
    torch.tensor(1.).select(0,0)
    x.unbind(5)
    torch.tensor(1.).unbind()
    x.tensor_split(0)
    x.tensor_split(2.5)
    x.tensor_split((1,2),1)[1].shape
    x.tensor_split(torch.tensor([1]))
    x.tensor_split(torch.tensor(2))
    x.masked_fill(x>0,"a")
    x.masked_fill(x,0.)
    x.masked_fill(x>0,torch.ones(2))
    x.masked_fill(x>0,1j)
    torch.where(x>0,x,"a")
    torch.where(x,x,x)
    torch.where(x>0,x,None)
    torch.where(x>0,x)
    torch.where(x>0)
    torch.where(x>0,1,2)
    torch.where(x>0,1,2.5).dtype
    torch.where(x>0,1j,2).dtype
    x.swapaxes(0,5)
    x.transpose(0,"a")
    x.t().shape
    torch.ones(1,1,1).t()
    x.as_strided((2,2),(1,))
    x.as_strided((20,),(1,))
    x.as_strided((2,),(-1,))
    x.unfold(0,5,1)
    x.unfold(0,1,0)
    x.unfold(0,-1,1)
    x.view_as(1)
    x.expand_as(1)
    x.broadcast_to(2,3)
    x.broadcast_to((4,2,3)).shape
    x.repeat_interleave(-1)
    x.repeat_interleave(2.5)
    x.repeat_interleave(torch.tensor([1,2]),0)
    x.repeat_interleave(torch.tensor([1,2,3]),0)
    x.repeat_interleave(torch.tensor([1.,2]),0)
    x.repeat_interleave(2,5)
    x.rot90(1,(0,0))
    x.rot90(1,(0,))
    x.rot90("a")
    torch.atleast_2d(1.0)
    torch.block_diag(x,torch.ones(3))
    torch.block_diag(torch.ones(1,1,1))
    torch.cartesian_prod(torch.ones(2),torch.ones(2,2))
    torch.combinations(x)
    torch.combinations(torch.arange(3),0)
    torch.combinations(torch.arange(3),-1)
    x.diag(5)
    torch.ones(1,1,1).diag()
    x.diag_embed(0,0,0)
    x.take(torch.tensor([7]))
    x.take(torch.tensor([1.]))
    x.take(1)
    x.put(torch.tensor([0]),torch.tensor([1]))
    x.masked_select(x)
    x.masked_scatter(x>0,torch.ones(1))
    x.gather(0,torch.zeros(3,dtype=torch.long))
    x.gather(0,torch.zeros(1,1))
    x.gather(5,torch.zeros(1,1).long())
    x.gather(0,torch.full((1,1),5))
    x.gather(0,torch.full((1,1),-1))
    x.gather(1,1)
    x.scatter(0,torch.zeros(1,1).long(),torch.ones(1,1).double())
    x.scatter(0,torch.zeros(1,1).long(),"a")
    x.scatter(0,torch.zeros(1,1).long())
    x.scatter(0,torch.zeros(1,1).long(),1,reduce="foo")
    x.scatter_add(0,torch.zeros(3,3).long(),torch.ones(2,3))
    x.index_select(0,torch.tensor([5]))
    x.index_select(1,torch.tensor([5]))
    x.index_select(0,torch.tensor([[0]]))
    x.index_select(0,torch.tensor([0.]))
    x.index_select(0,1)
    x.index_add(0,torch.tensor([0]),torch.ones(1,2))
    x.index_add(0,torch.tensor([5]),torch.ones(1,3))
    x.index_fill(0,torch.tensor([5]),1)
    x.index_fill(0,torch.tensor([0]),"a")
    x.index_copy(0,torch.tensor([0]),torch.ones(2,3))
    x[5]
    x[0.5]
    x["a"]
    x[0,0,0]
    x[:,:,:]
    x[...,...]
    x[None,0,...,None].shape
    x[::-1]
    x[::0]
    x[torch.tensor([5])]
    x[torch.tensor([0.])]
    x[torch.tensor([True])]
    x[[True,False]]
    x[torch.tensor([0,1]),torch.tensor([0,1,2])]
    torch.tensor(1.)[0]
    torch.tensor(1.)[None].shape
    torch.tensor(1.)[...]
    torch.tensor(1.)[:]
    x[True].shape
    x[False].shape
    x[1:0].shape
    x[5:].shape
    x[-9:9].shape
    x[torch.tensor(1)]
    x[torch.tensor(1):]
    x[{}]
    x[:, 0:torch.tensor(2)]
    x[(0,)]
    x[()]
    x[[0,1]]
    x[[0],[1]]
    x.scatter_reduce(0,torch.zeros(1,1).long(),torch.ones(1,1),"foo")
    x.take_along_dim(torch.zeros(1,1).long(),0)
    x.take_along_dim(torch.zeros(1,1),0)
    x.take_along_dim(torch.zeros(1).long(),0)
    torch.take_along_dim(x,torch.tensor([[7]]),1)
    x.select_scatter(torch.ones(3),0,5)
    x.slice_scatter(torch.ones(1,3),0,0,5,1)
    x.narrow_copy(0,0,1)
    x.unsafe_chunk(2)
    x.nonzero(as_tuple=1)
    torch.argwhere(x)
    x.flip((0,-2))
    torch.hstack([])
    torch.hstack(x)
    torch.vstack((x,1))
    x.hsplit(2)
    x.vsplit(2)
    x.dsplit(2)
    torch.dstack((x,x)).shape
    x.ravel().shape
    x.contiguous(memory_format=torch.contiguous_format).shape
    x.clone(memory_format=1)
    x.T.shape
    x.mT.shape
    x.H.shape
    torch.ones(2).mT
    torch.ones(2,2,2).H
    x.adjoint().shape
    torch.ones(2).adjoint()
    x.moveaxis(0,1).shape
    torch.transpose(input=x,dim0=0,dim1=1).shape
    torch.gather(input=x,dim=0,index=torch.zeros(1,1).long())
    torch.cat(tensors=[x,x],dim=0).shape
    torch.concat([x,x]).shape
    torch.unravel_index(torch.tensor([1.]),(2,3))
    torch.unravel_index(torch.tensor([5]),(2,3))
    torch.broadcast_shapes((2,),(3,))
    torch.broadcast_tensors(x,torch.ones(3))[1].shape
    x.index_put((torch.tensor([0]),),torch.ones(3,dtype=torch.long))
    x.nonzero_static(size=-1)
    x.nonzero_static(size=2)
    z.H
    torch.ones(2).H
    z.mH
    torch.ones(2).mH
    z.mT
    z.T
    z.adjoint()
    torch.atleast_1d(1.0)
    torch.atleast_1d([x,z])
    torch.atleast_1d(x,z)
    torch.atleast_3d(1.0)
    torch.atleast_2d((x,))
    torch.atleast_2d(x,1)
    x.squeeze(dim=None)
    x.squeeze(axis=None)
    x.squeeze(axis=0).shape
    x.broadcast_to(size=(2,3)).shape
    x.broadcast_to()
    torch.broadcast_to(x,2)
    torch.split(tensor=x,split_size_or_sections=1)
    torch.split(input=x,split_size_or_sections=1)
    torch.split(x,1,0)
    torch.split(x,split_size=1)
    x.view()
    z.view()
    x.reshape()
    z.reshape()
    z.expand()
    z.permute()
    x.view(None)
    x.view("a")
    x.reshape("a")
    x.reshape(1.5)
    x.expand("a")
    torch.reshape(x,6)
    torch.reshape(x,shape=(6,))
    x.repeat_interleave(torch.tensor([-1,1]),0)
    x.repeat_interleave(None)
    x.repeat_interleave(repeats=2,dim=1)
    x.repeat_interleave(torch.tensor(2),dim=1)
    x.repeat_interleave(torch.tensor([2]),dim=1).shape
    x.repeat_interleave(torch.tensor([[2,1]]),dim=0)
    torch.repeat_interleave(torch.tensor([1,2]))
    torch.repeat_interleave(torch.tensor([1.,2]))
    torch.repeat_interleave(torch.tensor([[1]]))
    torch.repeat_interleave(torch.tensor([-1]))
    x.repeat_interleave(2,0,output_size=4).shape
    x.repeat_interleave(2,0,output_size=5).shape
    x.repeat_interleave(torch.tensor([1,2]),0,output_size=5).shape
    z.repeat_interleave(2)
    z.repeat_interleave(2,0)
    x.repeat_interleave(torch.tensor([1,2],dtype=torch.int32),0).shape
    x.repeat_interleave(torch.tensor([1,2],dtype=torch.int16),0)
    torch.vstack(5)
    torch.vstack([x,None])
    torch.dstack(x)
    torch.column_stack(x)
    torch.column_stack((x,1))
    torch.cat(5)
    torch.stack(5)
    torch.stack([1,2])
    torch.concat(x)
    torch.index_copy(x,0,torch.tensor([0]),torch.ones(1,2))
    torch.index_copy(x,0,torch.tensor([0]),torch.ones(3))
    torch.index_copy(x,0,torch.tensor(0),torch.ones(3))
    torch.index_copy(x,0,torch.tensor([0,1]),torch.ones(1,3))
    torch.index_copy(torch.ones(3),0,torch.tensor([0]),z)
    torch.index_copy(torch.ones(3),0,torch.tensor([0,1]),z)
    torch.index_add(torch.ones(3),0,torch.tensor([0]),z)
    torch.index_add(x,0,torch.tensor([0]),torch.ones(2,3))
    torch.index_add(x,0,torch.tensor(0),torch.ones(1,3))
    torch.index_add(x,0,torch.tensor(0),torch.ones(3))
    torch.index_add(x,0,torch.tensor([0]),torch.ones(1,3),alpha=2)
    torch.index_add(x,0,torch.tensor([0]),torch.ones(1,3).double())
    torch.meshgrid(torch.ones(2),1,indexing="ij")
    torch.block_diag(1)
    torch.block_diag()
    torch.cartesian_prod()
    torch.cartesian_prod(1)
    torch.broadcast_tensors(x,1)
    torch.broadcast_tensors()
    torch.broadcast_shapes((2,3),4)
    torch.broadcast_shapes(3,(1,))
    torch.broadcast_shapes()
    torch.broadcast_shapes((-1,))
    torch.broadcast_shapes("a")
    torch.combinations(torch.arange(3),r=2,with_replacement=True).shape
    x.select(dim=0,index=1)
    x.diagonal(offset=1,dim1=0,dim2=1)
    x.unfold(dimension=0,size=1,step=1).shape
    x.flip(dims=0)
    x.roll(shifts=(1,),dims=(0,))
    x.tile()
    x.tile(2,2).shape
    torch.tile(x,2)
    torch.tile(x,(2,)).shape
    x.index_select(dim=0,index=torch.tensor([0]))
    x.masked_fill(mask=x>0,value=1)
    x.masked_fill_(x>0,1)
    x.take(index=torch.tensor([0]))
    x.gather(dim=0,index=torch.zeros(1,1).long(),sparse_grad=False)
    x.scatter(dim=0,index=torch.zeros(1,1).long(),value=1)
    x.scatter(dim=0,index=torch.zeros(1,1).long(),src=x)
    x.scatter(0,torch.zeros(1,1).long(),x,reduce="add")
    x.scatter(0,torch.zeros(1,1).long(),torch.tensor(1.))
    x.unsqueeze(dim=0).shape
    x.unsqueeze(None)
    x.unsqueeze(5)
    x.unsqueeze(True)
    x.select(True,0)
    x.transpose(dim0=0,dim1=1).shape
    x.swapdims(dim0=0,dim1=1).shape
    x.swapaxes(axis0=0,axis1=1).shape
    x.movedim(source=0,destination=1).shape
    x.flatten(start_dim=0).shape
    x.unflatten(dim=1,sizes=(3,1)).shape
    x.unflatten(1,[3,-1]).shape
    x.unflatten(1,(-1,-1))
    z.unflatten(0,(1,))
    torch.zeros(0,2).unflatten(0,(0,-1))
    torch.zeros(0).view(-1)
    torch.zeros(0,2).view(-1,0)
    torch.zeros(0,2).reshape(0,-1)
    torch.zeros(0,3).view(-1,3).shape
    x.narrow(dim=0,start=0,length=1)
    x.narrow(0,torch.tensor([0]),1)
    x.narrow(0,torch.tensor(0.),1)
    x.narrow(0,torch.tensor(0,dtype=torch.int32),1)
    x.narrow(0,True,1)
    x.hsplit([1,2])
    x.hsplit(4)
    z.hsplit(1)
    torch.ones(2).vsplit(1)
    x.diag_embed(dim1=0,dim2=5)
    x.rot90(k=1,dims=[0,1])
    x.rot90(1,(0,5))
    torch.ones(3).rot90()
    x.fliplr()
    torch.ones(3).fliplr()
    z.flipud()
    x.argwhere()
    torch.nonzero(x,as_tuple=True)
    torch.unravel_index(torch.tensor(5),(2,3))
    torch.unravel_index(torch.tensor([5]),6)
    torch.unravel_index(torch.tensor([5]),(2,-3))
    torch.unravel_index(torch.tensor([7]),(2,3))
    torch.unravel_index(torch.tensor([-1]),(2,3))
    torch.unravel_index(torch.tensor([True]),(2,3))
    x.masked_scatter(x>0,torch.ones(6))
    x.masked_scatter(x,torch.ones(6))
    x.masked_scatter(x>0,1)
    x.put(torch.tensor([0]),torch.ones(1),accumulate=True)
    x.put_(torch.tensor([9]),torch.ones(1))
    x.index_fill(0,torch.tensor([-1]),1)
    x.index_fill(0,torch.tensor([0]),torch.ones(2))
    x.index_fill(0,torch.tensor([[0]]),1)
    x.index_fill(0,torch.tensor([0.]),1)
    x.index_fill(0,torch.tensor([0],dtype=torch.int32),1)
    x.index_select(0,torch.tensor([0],dtype=torch.int32))
    x.index_select(0,torch.tensor([-1]))
    x.take(torch.tensor([-1]))
    x.take(torch.tensor([0],dtype=torch.int32))
    x.slice_scatter(torch.ones(1,3),start=0,end=1)
    x.slice_scatter(torch.ones(1,2))
    x.slice_scatter(torch.ones(2,3),step=0)
    x.select_scatter(torch.ones(2),0,0)
    x.diagonal_scatter(torch.ones(2))
    x.diagonal_scatter(torch.ones(3))
    x.as_strided_scatter(torch.ones(2),(2,),(1,))
    torch.as_strided(x,(2,),(1,),1)
    x.as_strided(size=(2,),stride=(1,),storage_offset=1)
    x.expand(2,3,implicit=True).shape
    x.contiguous(memory_format=torch.channels_last)
    x.clone(memory_format=torch.preserve_format).shape
    x.view(torch.int32).dtype
    x.view(dtype=torch.int32).dtype
    x.view(torch.float64)
    torch.ones(2,4).view(torch.float64).shape
    x.view(torch.float16).shape
    x.where(x>0,0.)
    x.where(condition=x>0,other=0.)
    torch.where(condition=x>0,input=x,other=0.)
    torch.where(x.to(torch.uint8),x,0.)
    torch.where(True,x,x)
    torch.scatter_reduce(x,0,torch.zeros(1,3).long(),x,"sum",include_self=False)
    torch.index_reduce(x,0,torch.tensor([0]),torch.ones(1,3),"prod")
    x.scatter_reduce(0,torch.zeros(1,3).long(),x,reduce="mean")
    torch.take_along_dim(x,torch.tensor([[-1]]),1)
    torch.take_along_dim(x,torch.tensor([[2],[0]]),1)
    torch.take_along_dim(x,torch.tensor([5,0]))
    torch.take_along_dim(x,torch.tensor([[0,0,0]]),-2)
    torch.take_along_dim(x,torch.tensor([[0,0,0]]),5)
    torch.take_along_dim(x,torch.tensor([[0,0,0,0]]),0)
    torch.take_along_dim(z,torch.tensor(0),0)
    torch.take_along_dim(z,torch.tensor(0))
    torch.take_along_dim(x,torch.zeros(2,0).long(),1)
    torch.take_along_dim(x,indices=torch.tensor([[0]]),dim=0)
    x.take_along_dim(torch.tensor([[0]]),"a")
"""

# Calls whose nodes, from the result to the leaf, go by torch's names in torch's order.
HISTORIES = """
    x.repeat_interleave(2, 0)
    x.repeat_interleave(torch.tensor([1, 2, 3]), 1)
    x.rot90()
    x.rot90(2)
    x.squeeze((0, 1))
    x.squeeze(0)
    x.split(1)[0]
    x.split([1, 1])[0]
    x.chunk(2)[0]
    x.unbind()[0]
    x.movedim(0, 1)
    x.swapaxes(0, 1)
    x.T
    x.mT
    x.H
    x.tile(2)
    torch.vstack((x, x))
    torch.column_stack((x, x))
    x.broadcast_to(2, 2, 3)
    x.flatten()
    x.unflatten(1, (3, 1))
    x.scatter(0, torch.zeros(1, 1).long(), 1.0)
    x.index_fill(0, torch.tensor([0]), 1.0)
    x[0]
    x[:, 0]
    x[None]
    x[...]
    x[0:1, 1:2]
    x[torch.tensor([0])]
    x[torch.tensor([0]), torch.tensor([0])]
    x[x.detach() > 0]
    x.narrow(0, 0, 1)
    x.tensor_split(2)[0]
    torch.where(x.detach() > 0, x, 0.0)
    torch.where(x.detach() > 0, 0.0, x)
    x.roll(1)
    x.flip(0)
    x.tril()
    x.diag()
    x.diag(1)
"""


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def matrix(library):
    return library.arange(6.0).reshape(2, 3)


def answer(call, library):
    scope = {"torch": library, "x": matrix(library), "z": library.tensor(1.0)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(eval(call, scope))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("call", lines(CALLS))
def test_a_call_gives_what_torch_gives_or_raises_its_type(call):
    assert answer(call, pullback) == answer(call, torch)


def chain(node):
    names = []
    while node is not None:
        names.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    return names


@pytest.mark.parametrize("call", lines(HISTORIES))
def test_a_call_leaves_the_nodes_that_torch_leaves(call):
    histories = []
    for library in (pullback, torch):
        scope = {"torch": library, "x": matrix(library).requires_grad_()}
        histories.append(chain(eval(call, scope).grad_fn))
    assert histories[0] == histories[1]
