"""word2vec: skip-grams with negative sampling, sparse gradients of embeddings, SparseAdam."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
TEXT = """
the king rules the land and the queen rules the land
the dog chases the cat and the cat chases the mouse
the king and the queen love the dog and the cat
the mouse eats the cheese and the dog eats the meat
"""
words = 3 * TEXT.split()
WORDS = sorted(set(words))
codes = torch.tensor([WORDS.index(word) for word in words])
counts = torch.bincount(codes, minlength=len(WORDS)).float()
noise = counts.pow(0.75)

pairs = torch.cat(
    [torch.stack([codes[:-d], codes[d:]], 1) for d in (1, 2)]
    + [torch.stack([codes[d:], codes[:-d]], 1) for d in (1, 2)]
)


class SkipGram(nn.Module):
    def __init__(self, words, width=8):
        super().__init__()
        self.inner = nn.Embedding(words, width, sparse=True)
        self.outer = nn.Embedding(words, width, sparse=True)
        nn.init.uniform_(self.inner.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, centre, context, negative):
        middle = self.inner(centre)
        near = (middle * self.outer(context)).sum(-1)
        far = torch.bmm(self.outer(negative), middle.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(near) + F.logsigmoid(-far).sum(-1)).mean()


model = SkipGram(len(WORDS))
optimizer = torch.optim.SparseAdam(model.parameters(), lr=5e-2)
for epoch in range(5):
    losses = []
    for batch in torch.randperm(len(pairs)).split(64):
        centre, context = pairs[batch].unbind(1)
        negative = torch.multinomial(noise, 4 * len(batch), replacement=True).view(-1, 4)
        optimizer.zero_grad()
        loss = model(centre, context, negative)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {sum(losses) / len(losses):.5f}")

grad = model.inner.weight.grad
print("sparse gradient", grad.is_sparse, tuple(grad.shape), len(grad.coalesce().indices()[0]))
vectors = F.normalize(model.inner.weight.detach(), dim=1)
king = vectors[WORDS.index("king")]
print(f"king and queen {king @ vectors[WORDS.index('queen')]:.3f}")
