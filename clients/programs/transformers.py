"""transformers: five architectures from small random configurations, their losses, and greedy text."""

from clients import _vision  # noqa: F401 (transformers imports torchvision where it is installed)

# isort: split
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.utils import logging

logging.set_verbosity_error()
torch.manual_seed(0)
ids = torch.randint(3, 50, (2, 8))
layers = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "hidden_size": 32,
}
ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def shown(name, model, out):
    out.loss.backward()
    size = sum(p.grad.abs().sum() for p in model.parameters() if p.grad is not None)
    print(f"{name} {out.loss.item():.4f} {size.item():.2f}")


bert = BertForSequenceClassification(
    BertConfig(vocab_size=50, max_position_embeddings=32, **layers)
)
shown("BERT", bert, bert(ids, attention_mask=torch.ones_like(ids), labels=torch.tensor([0, 1])))
sizes = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, **sizes, **ends)).eval()
shown("GPT-2", gpt2, gpt2(ids, labels=ids))
print(gpt2.generate(ids[:1], max_new_tokens=6, do_sample=False).tolist())
llama = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_key_value_heads=2, **layers, **ends)).eval()
shown("Llama", llama, llama(ids, labels=ids))
print(llama.generate(ids[:1], max_new_tokens=6, do_sample=False).tolist())
t5 = T5ForConditionalGeneration(
    T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
).eval()
shown("T5", t5, t5(input_ids=ids, decoder_input_ids=ids, labels=ids))
vit = ViTForImageClassification(
    ViTConfig(image_size=32, patch_size=8, num_labels=3, **layers)
).eval()
shown("ViT", vit, vit(torch.randn(2, 3, 32, 32), labels=torch.tensor([0, 2])))
