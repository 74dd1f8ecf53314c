"""A variational autoencoder: a Normal encoder, a Bernoulli decoder, and a KL divergence."""

import torch
from torch import nn
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self, pixels=36, hidden=48, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, latent)
        self.scale = nn.Sequential(nn.Linear(hidden, latent), nn.Softplus())
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, pixels)
        )
        self.register_buffer("zero", torch.zeros(latent))
        self.register_buffer("one", torch.ones(latent))

    def posterior(self, x):
        hidden = self.encoder(x)
        return Independent(Normal(self.mean(hidden), self.scale(hidden) + 1e-3), 1)

    def prior(self):
        return Independent(Normal(self.zero, self.one), 1)

    def elbo(self, x):
        posterior = self.posterior(x)
        pixels = Independent(Bernoulli(logits=self.decoder(posterior.rsample())), 1)
        divergence = kl_divergence(posterior, self.prior().expand(posterior.batch_shape))
        return pixels.log_prob(x), divergence


rows = torch.bernoulli(torch.full((256, 6, 1), 0.4))
columns = torch.bernoulli(torch.full((256, 1, 6), 0.4))
images = torch.maximum(rows, columns).expand(-1, 6, 6).flatten(1)

model = VAE()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(8):
    losses, divergences = [], []
    for batch in torch.randperm(256).split(64):
        optimizer.zero_grad()
        fit, divergence = model.elbo(images[batch])
        loss = (divergence - fit).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        divergences.append(divergence.mean().item())
    print(f"epoch {epoch} loss {sum(losses) / 4:.4f} kl {sum(divergences) / 4:.4f}")

with torch.no_grad():
    drawn = Bernoulli(logits=model.decoder(model.prior().sample((5,)))).sample()
print("drawn pixels", int(drawn.sum()), tuple(drawn.shape))
