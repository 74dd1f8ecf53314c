"""peft: a small GPT-2 with low-rank adapters, trained, merged, and asked again."""

from clients import _vision  # noqa: F401 (transformers imports torchvision where it is installed)

# isort: split
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()
torch.manual_seed(0)
config = GPT2Config(
    vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
)
model = get_peft_model(
    GPT2LMHeadModel(config), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
).eval()
print(list(model.get_nb_trainable_parameters()))
ids = torch.randint(3, 50, (2, 8))
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
for _ in range(5):
    loss = model(ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
with torch.no_grad():
    print(f"merged {model.merge_and_unload()(ids, labels=ids).loss.item():.4f}")
