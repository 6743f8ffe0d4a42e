# SPDX-License-Identifier: MIT
"""CTranslate2: storage, and a tiny random decoder, on the GPU against the processor."""
import tempfile

import ctranslate2
import numpy
from common import equal, near, run, test
from ctranslate2.specs import common_spec, transformer_spec

WORDS, WIDTH, HEADS, LAYERS = 32, 32, 4, 2
PROMPTS = [["<s>", "t1", "t2"], ["<s>", "t5"]]
CPU, CUDA = ctranslate2.Device.cpu, ctranslate2.Device.cuda


def save(folder):
    random = numpy.random.default_rng(1)

    def linear(layer, outputs, inputs):
        layer.weight = (random.standard_normal((outputs, inputs)) * 0.3).astype("float32")
        layer.bias = (random.standard_normal(outputs) * 0.1).astype("float32")

    def norm(layer):
        layer.gamma, layer.beta = numpy.ones(WIDTH, "float32"), numpy.zeros(WIDTH, "float32")

    spec = transformer_spec.TransformerDecoderModelSpec.from_config(LAYERS, HEADS, activation=common_spec.Activation.GELU)
    decoder = spec.decoder
    decoder.embeddings.weight = random.standard_normal((WORDS, WIDTH)).astype("float32")
    decoder.position_encodings.encodings = random.standard_normal((64, WIDTH)).astype("float32")
    decoder.scale_embeddings = False
    norm(decoder.layer_norm)
    linear(decoder.projection, WORDS, WIDTH)
    for layer in decoder.layer:
        norm(layer.self_attention.layer_norm)
        linear(layer.self_attention.linear[0], 3 * WIDTH, WIDTH)
        linear(layer.self_attention.linear[1], WIDTH, WIDTH)
        norm(layer.ffn.layer_norm)
        linear(layer.ffn.linear_0, 2 * WIDTH, WIDTH)
        linear(layer.ffn.linear_1, WIDTH, 2 * WIDTH)
    spec.register_vocabulary(["<unk>", "<s>", "</s>"] + [f"t{i}" for i in range(WORDS - 3)])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.validate()
    spec.save(folder)


def generate(folder, device, kind):
    """Greedy tokens with their scores, and the logits of one sequence."""
    generator = ctranslate2.Generator(folder, device=device, compute_type=kind)
    got = generator.generate_batch(PROMPTS, max_length=12, sampling_topk=1, include_prompt_in_result=False, return_scores=True)
    logits = numpy.array(generator.forward_batch([PROMPTS[0] + ["t4"]]).to_device(CPU)) if kind == "float32" else None
    return [one.sequences for one in got], [one.scores for one in got], logits


@test
def storage():
    equal(ctranslate2.get_cuda_device_count(), 1)
    values = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    there = ctranslate2.StorageView.from_array(values).to_device(CUDA)
    equal(there.to_device(CPU), values)
    equal(there.to(ctranslate2.DataType.float16).to(ctranslate2.DataType.float32).to_device(CPU), values)


@test
def decoder():
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        tokens, scores, logits = generate(folder, "cpu", "float32")
        got = generate(folder, "cuda", "float32")
        equal(got[0], tokens)
        near(got[1], scores, 1e-5)
        near(got[2], logits, 1e-5)
        near(generate(folder, "cuda", "float16")[1], scores, 2e-2)
        near(generate(folder, "cuda", "int8")[1], scores, 5e-2)


run()
