# SPDX-License-Identifier: MIT
"""transformers of the package index with Debian's PyTorch: tiny random models on the GPU against the processor."""
import copy
import os

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched: the weights are random

import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
IDS = torch.randint(0, 100, (2, 9))
LLAMA = LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)).eval()


def said(name, right):
    print("ok" if right else "wrong", name, flush=True)


def outputs(name, model, member):
    with torch.no_grad():
        wanted = getattr(model.eval()(IDS), member)
        got = getattr(copy.deepcopy(model).cuda()(IDS.cuda()), member).cpu()
    said(name, torch.allclose(got, wanted, atol=1e-4))


def training(model, ids):
    """The loss before each of three steps."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


outputs("Llama", LLAMA, "logits")
outputs("BERT", BertModel(BertConfig(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=128)), "last_hidden_state")
outputs("GPT-2", GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=0,
                                            eos_token_id=0)), "logits")
there = copy.deepcopy(LLAMA).cuda()
tokens = there.generate(IDS.cuda(), max_new_tokens=12, do_sample=False, pad_token_id=0).cpu()
said("generate", torch.equal(tokens, LLAMA.generate(IDS, max_new_tokens=12, do_sample=False, pad_token_id=0)))
said("training", torch.allclose(training(there, IDS.cuda()), training(copy.deepcopy(LLAMA), IDS), atol=1e-4))
