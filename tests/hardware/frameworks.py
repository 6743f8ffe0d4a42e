#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""frameworks.py: what the Python frameworks of this machine compute on the GPU, and how long it takes.

Prints `NAME MILLISECONDS CHECKSUM` a line, `NAME failed REASON`, or `NAME absent` where a framework is not installed.
frameworks.py --compare NATIVE OURS: two such outputs beside each other, results compared, times as ratios.
"""
import sys
import time


def report(name, function, sync, repeats=20):
    try:
        value = function()
        sync()
        start = time.perf_counter()
        for _ in range(repeats):
            value = function()
        sync()
        elapsed = (time.perf_counter() - start) * 1000 / repeats
        print(f"{name} {elapsed:.4f} {float(value):.6g}", flush=True)
    except Exception as error:  # whatever a framework raises is the finding
        print(f"{name} failed {type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}", flush=True)


def share_child(tensors, answers):
    """The other process of torch.shared_tensor: it gets a tensor of the GPU, and changes it there."""
    tensor = tensors.get()
    tensor.add_(1)
    answers.put(float(tensor.sum()))
    del tensor  # before this process ends, as its owner waits for that


def pytorch():
    import torch
    import torch.multiprocessing
    torch.manual_seed(0)
    gpu, sync = torch.device("cuda"), torch.cuda.synchronize
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name(0)}, capability {torch.cuda.get_device_capability(0)}")
    for kind in (torch.float32, torch.bfloat16):
        a = torch.randn(2048, 2048, device=gpu, dtype=kind)
        report(f"torch.matmul.{str(kind)[6:]}", lambda a=a: (a @ a).float().abs().mean(), sync)
    image = torch.randn(8, 64, 56, 56, device=gpu)
    conv = torch.nn.Conv2d(64, 64, 3, padding=1).to(gpu)
    report("torch.conv2d", lambda: conv(image).abs().mean(), sync)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True).to(gpu)
    tokens = torch.randn(8, 128, 512, device=gpu)

    def train():
        layer.zero_grad()
        loss = layer(tokens).square().mean()
        loss.backward()
        return loss.detach()
    report("torch.transformer_step", train, sync)
    graph, still = torch.cuda.CUDAGraph(), torch.ones(1 << 20, device=gpu)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        still * 2
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        out = still * 2 + 1

    def replay():
        graph.replay()
        return out[0]
    report("torch.cuda_graph", replay, sync)
    for name, pin in (("pageable", False), ("pinned", True)):
        host = torch.ones(64 << 20, dtype=torch.uint8, pin_memory=pin)
        report(f"torch.copy_64m.{name}", lambda host=host: host.to(gpu, non_blocking=True)[0].float(), sync, 5)
    data = torch.utils.data.DataLoader(torch.arange(4096.0), batch_size=256, num_workers=2, pin_memory=True)
    report("torch.data_loader", lambda: sum(b.to(gpu).sum() for b in data), sync, 1)
    processes = torch.multiprocessing.get_context("spawn")

    def shared():
        tensors, answers, block = processes.Queue(), processes.Queue(), torch.ones(1 << 16, device=gpu)
        child = processes.Process(target=share_child, args=(tensors, answers), daemon=True)
        child.start()
        tensors.put(block)
        value = answers.get(timeout=40)
        child.join(10)
        return value + float(block.sum())
    report("torch.shared_tensor", shared, sync, 1)
    report("torch.memory_stats", lambda: torch.cuda.memory_stats()["allocation.all.current"] > 0, sync, 1)


def cupy():
    import cupy
    print(f"# cupy {cupy.__version__}")
    sync = cupy.cuda.Device().synchronize
    a = cupy.arange(1 << 22, dtype=cupy.float32).reshape(2048, 2048) / (1 << 22)
    report("cupy.matmul", lambda: (a @ a).mean(), sync)
    report("cupy.fft", lambda: abs(cupy.fft.fft(a[0])).mean(), sync)


def jax():
    import jax
    import jax.numpy as jnp
    print(f"# jax {jax.__version__}, {jax.devices()}")
    a = jnp.ones((2048, 2048))
    step = jax.jit(lambda x: jnp.tanh(x @ x).mean())
    report("jax.jit", lambda: step(a).block_until_ready(), lambda: None)
    slope = jax.jit(jax.grad(lambda x: jnp.sin(x).sum()))
    report("jax.grad", lambda: slope(a).block_until_ready()[0, 0], lambda: None)


def triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)
    print(f"# triton {triton.__version__}")
    x = torch.ones(1 << 20, device="cuda")
    out = torch.empty_like(x)

    def run():
        add[(1024,)](x, x, out, x.numel(), BLOCK=1024)
        return out[7]
    report("triton.add", run, torch.cuda.synchronize)


def numba():
    import numpy
    from numba import cuda
    print("# numba")

    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2
    device = cuda.to_device(numpy.zeros(1 << 20, dtype=numpy.float32))

    def run():
        double[4096, 256](device)
        return 0.0
    report("numba.kernel", run, cuda.synchronize)


def rows(path):
    found = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(maxsplit=2)
            if len(words) >= 2 and "." in words[0] and not line.startswith("#"):
                found[words[0]] = words[1:]
    return found


def compare(native_path, ours_path):
    native, ours = rows(native_path), rows(ours_path)
    for name, (time_or_word, *rest) in native.items():
        other = ours.get(name, ["missing"])
        try:
            ratio = float(other[0]) / float(time_or_word)
            a, b = float(rest[0]), float(other[1])
            same = "same result" if abs(a - b) <= 1e-3 * max(abs(a), abs(b), 1e-6) else f"DIFFERS: {a} and {b}"
            print(f"{name}: native {time_or_word} ms, through us {other[0]} ms, {ratio:.2f} times; {same}")
        except (ValueError, IndexError):
            print(f"{name}: native {time_or_word} {' '.join(rest)}; through us {' '.join(other)}")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        compare(sys.argv[2], sys.argv[3])
        return 0
    if len(sys.argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    for framework in (pytorch, cupy, jax, triton, numba):
        try:
            framework()
        except ImportError as error:
            print(f"{framework.__name__} absent ({error})", flush=True)
        except Exception as error:  # the others shall run as well
            print(f"{framework.__name__}. failed {type(error).__name__}: {str(error)[:200]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
