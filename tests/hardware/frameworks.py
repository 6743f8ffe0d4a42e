#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""frameworks.py: what the Python frameworks of this machine compute on the GPU, and how long it takes.

frameworks.py [--small] [FRAMEWORK...]: torch, cupy, jax, triton, numba; default: all. Prints `NAME MILLISECONDS RESULT`
    for each thing that is tried, `NAME failed REASON`, or `not run: FRAMEWORK: REASON`. Several frameworks run in a
    process each, so that none ends the others. --small: little work, for a software GPU.
frameworks.py --compare NATIVE OURS: two such outputs beside each other, results compared, times as ratios.
frameworks.py --list: the frameworks that are installed.
"""
import importlib
import importlib.util
import os
import subprocess
import sys
import time

LIMIT = 100  # seconds for a framework, where several run
SMALL = False


def size(large, small):
    return small if SMALL else large


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:120] if text else ''}"


def ending(status):
    return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"


def report(name, function, sync, repeats=20):
    try:
        value = function()
        sync()
        repeats = size(repeats, 1)
        start = time.perf_counter()
        for _ in range(repeats):
            value = function()
        sync()
        elapsed = (time.perf_counter() - start) * 1000 / repeats
        print(f"{name} {elapsed:.4f} {float(value):.6g}", flush=True)
    except Exception as error:  # whatever a framework raises is the finding
        print(f"{name} failed {first_line(error)}", flush=True)


def share_child(tensors, answers):
    """The other process of torch.shared_tensor: it gets a tensor of the GPU, and changes it there."""
    tensor = tensors.get()
    tensor.add_(1)
    answers.put(float(tensor.sum()))
    del tensor  # before this process ends, as its owner waits for that


def torch_products(torch, gpu, sync):
    n = size(2048, 128)
    for kind in (torch.float32, torch.bfloat16):
        a = torch.randn(n, n, device=gpu, dtype=kind)
        report(f"torch.matmul.{str(kind)[6:]}", lambda a=a: (a @ a).float().abs().mean(), sync)


def torch_convolution(torch, gpu, sync):
    image = torch.randn(size(8, 1), size(64, 4), size(56, 16), size(56, 16), device=gpu)
    conv = torch.nn.Conv2d(image.shape[1], image.shape[1], 3, padding=1).to(gpu)
    report("torch.conv2d", lambda: conv(image).abs().mean().detach(), sync)


def torch_transformer(torch, gpu, sync):
    width = size(512, 32)
    layer = torch.nn.TransformerEncoderLayer(width, size(8, 2), 4 * width, dropout=0.0, batch_first=True).to(gpu)
    tokens = torch.randn(size(8, 2), size(128, 16), width, device=gpu)

    def train():
        layer.zero_grad()
        loss = layer(tokens).square().mean()
        loss.backward()
        return loss.detach() + layer.linear1.weight.grad.abs().sum()
    report("torch.transformer_step", train, sync)


def torch_graph(torch, gpu, sync):
    graph, still = torch.cuda.CUDAGraph(), torch.ones(1 << size(20, 12), device=gpu)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        still * 2
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        out = still * 2 + 1

    def replay():
        still.add_(1)
        graph.replay()
        return out[0]
    report("torch.cuda_graph", replay, sync)


def torch_copies(torch, gpu, sync):
    megabytes = size(64, 1)
    for name, pin in (("pageable", False), ("pinned", True)):
        host = torch.ones(megabytes << 20, dtype=torch.uint8, pin_memory=pin)
        report(f"torch.copy_{megabytes}m.{name}", lambda host=host: host.to(gpu, non_blocking=True)[-1].float(), sync, 5)


def torch_loader(torch, gpu, sync):
    data = torch.utils.data.DataLoader(torch.arange(4096.0), batch_size=256, num_workers=2, pin_memory=True)
    report("torch.data_loader", lambda: sum(b.to(gpu, non_blocking=True).sum() for b in data), sync, 1)


def torch_sharing(torch, gpu, sync):
    importlib.import_module("torch.multiprocessing")
    processes = torch.multiprocessing.get_context("spawn")

    def shared():
        tensors, answers, block = processes.Queue(), processes.Queue(), torch.ones(1 << 16, device=gpu)
        child = processes.Process(target=share_child, args=(tensors, answers), daemon=True)
        child.start()
        tensors.put(block)
        value = answers.get(timeout=size(40, 300))
        child.join(size(10, 100))
        return value + float(block.sum())
    report("torch.shared_tensor", shared, sync, 1)


def torch_memory(torch, gpu, sync):
    kept = torch.empty(1 << 20, dtype=torch.uint8, device=gpu)

    def stats():
        before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
        block = torch.empty(1 << 20, dtype=torch.uint8, device=gpu)
        after = torch.cuda.memory_stats()["allocated_bytes.all.current"]
        del block
        return after - before
    report("torch.memory_stats", stats, sync, 1)
    report("torch.mem_get_info", lambda: 0 < torch.cuda.mem_get_info()[0] <= torch.cuda.mem_get_info()[1] - kept.numel(), sync, 1)


def torch_is_there(torch, gpu, sync):
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name(0)}, capability {torch.cuda.get_device_capability(0)}", flush=True)
    report("torch.sum", lambda: torch.arange(1000, device=gpu).sum(), sync)


TORCH = (torch_is_there, torch_products, torch_convolution, torch_transformer, torch_graph, torch_copies, torch_loader,
         torch_sharing, torch_memory)


def try_torch_from(first, progress):
    """The parts from `first` on; a byte into `progress` for each that has ended."""
    import torch
    torch.manual_seed(0)
    for part in TORCH[first:]:
        try:
            part(torch, torch.device("cuda"), torch.cuda.synchronize)
        except Exception as error:  # the others shall run as well
            print(f"torch.{part.__name__[6:]} failed {first_line(error)}", flush=True)
        os.write(progress, b".")


def try_torch():
    """A library that aborts ends its part alone: another process goes on behind it."""
    import torch
    if torch.version.cuda is None:
        return "it is built without CUDA"
    done = 0
    while done < len(TORCH):
        read, write = os.pipe()
        command = [sys.executable, __file__] + (["--small"] if SMALL else []) + ["torch", str(done), str(write)]
        status = subprocess.run(command, pass_fds=[write], check=False).returncode
        os.close(write)
        with os.fdopen(read, "rb") as ended:
            done += len(ended.read(len(TORCH)))
        if status and done < len(TORCH):
            print(f"torch.{TORCH[done].__name__[6:]} failed {ending(status)}", flush=True)
            done += 1
    return None


def try_cupy():
    import cupy
    print(f"# cupy {cupy.__version__}")
    sync = cupy.cuda.Device().synchronize
    n = size(2048, 64)
    a = cupy.arange(n * n, dtype=cupy.float32).reshape(n, n) / (n * n)
    report("cupy.elementwise", lambda: (cupy.sin(a) * a + 1).sum(), sync)
    report("cupy.matmul", lambda: (a @ a).mean(), sync)
    report("cupy.fft", lambda: abs(cupy.fft.fft(a[0])).mean(), sync)
    kernel = cupy.RawKernel('extern "C" __global__ void twice(float *p, int n)'
                            '{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= 2; }', "twice")

    def raw():
        b = cupy.ones(1024, dtype=cupy.float32)
        kernel((4,), (256,), (b, 1024))
        return b.sum()
    report("cupy.raw_kernel", raw, sync)
    return None


def try_jax():
    import jax
    import jax.numpy as jnp
    if jax.default_backend() != "gpu":
        return f"it finds no GPU, its backend is {jax.default_backend()}"
    print(f"# jax {jax.__version__}, {jax.devices()}")
    n = size(2048, 64)
    a = jnp.ones((n, n)) / n
    step = jax.jit(lambda x: jnp.tanh(x @ x).mean())
    report("jax.jit", lambda: step(a).block_until_ready(), lambda: None)
    slope = jax.jit(jax.grad(lambda x: jnp.sin(x).sum()))
    report("jax.grad", lambda: slope(a).block_until_ready()[0, 0], lambda: None)
    half = a.astype(jnp.bfloat16)
    product = jax.jit(lambda x: jnp.matmul(x, x, preferred_element_type=jnp.float32).sum())
    report("jax.matmul.bfloat16", lambda: product(half).block_until_ready(), lambda: None)
    image, kernel = jnp.ones((size(8, 1), size(64, 4), size(56, 16), size(56, 16))), jnp.ones((size(64, 4), size(64, 4), 3, 3))
    convolve = jax.jit(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME").mean())
    report("jax.conv", lambda: convolve(image, kernel).block_until_ready(), lambda: None)
    transform = jax.jit(lambda x: jnp.abs(jnp.fft.fft2(x)).max())
    report("jax.fft", lambda: transform(a).block_until_ready(), lambda: None)
    return None


def try_triton():
    if importlib.util.find_spec("torch") is None:
        return "it takes PyTorch's tensors, and torch is not installed"
    import torch
    import triton
    import triton.language as tl
    if not torch.cuda.is_available():
        return "torch finds no GPU, or is built without CUDA"
    # Triton resolves a kernel's names among the module's globals.
    globals()["tl"] = tl
    print(f"# triton {triton.__version__}")
    n = 1 << size(20, 12)
    kernel, dot = triton.jit(triton_add), triton.jit(triton_dot)
    # Created on the processor: PyTorch's wheels contain no PTX, so the software GPU cannot run PyTorch's own kernels.
    x = torch.ones(n).to("cuda")
    out = torch.empty_like(x)

    def add():
        kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)
        return out[n - 1]
    report("triton.add", add, torch.cuda.synchronize)
    width = size(1024, 128)
    square = torch.full((width, width), 0.5).half().to("cuda")
    product = torch.empty((width, width), device="cuda")

    def multiply():
        dot[(width // 64, width // 64)](square, product, width, BLOCK=64, STEP=32)
        return product[width - 1, width - 1]
    report("triton.dot", multiply, torch.cuda.synchronize)
    compiled = torch.compile(lambda t: torch.tanh(t * 2).softmax(-1))
    report("triton.torch_compile", lambda: compiled(x.view(-1, 1024))[0, 0], torch.cuda.synchronize)
    return None


def triton_add(x, y, out, n, BLOCK: "tl.constexpr"):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # noqa: F821
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)  # noqa: F821


def triton_dot(a, out, n, BLOCK: "tl.constexpr", STEP: "tl.constexpr"):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # noqa: F821
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # noqa: F821
    inner = tl.arange(0, STEP)  # noqa: F821
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)  # noqa: F821
    for k in range(0, n, STEP):
        left = tl.load(a + row[:, None] * n + (k + inner)[None, :])  # noqa: F821
        right = tl.load(a + (k + inner)[:, None] * n + column[None, :])  # noqa: F821
        total = tl.dot(left, right, total)  # noqa: F821
    tl.store(out + row[:, None] * n + column[None, :], total)  # noqa: F821


def try_numba():
    import numpy
    from numba import cuda
    if not cuda.is_available():
        return "it finds no GPU, or not what it compiles with"
    print(f"# numba {importlib.import_module('numba').__version__}")

    @cuda.jit
    def twice(out, a):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] * 2
    n = 1 << size(20, 12)
    a = cuda.to_device(numpy.arange(n, dtype=numpy.float32))
    out = cuda.device_array_like(a)

    def run():
        twice[n // 256, 256](out, a)
        return out[n - 1]
    report("numba.kernel", run, cuda.synchronize)
    return None


FRAMEWORKS = {"torch": try_torch, "cupy": try_cupy, "jax": try_jax, "triton": try_triton, "numba": try_numba}


def installed(name):
    return importlib.util.find_spec(name) is not None


def try_one(name):
    why = "not installed"
    if installed(name):
        try:
            why = FRAMEWORKS[name]()
        except Exception as error:
            print(f"{name}.start failed {first_line(error)}", flush=True)
            return
    if why:
        print(f"not run: {name}: {why}", flush=True)


def try_all(names):
    for name in names:
        command = [sys.executable, __file__] + (["--small"] if SMALL else []) + [name]
        try:
            status = subprocess.run(command, timeout=size(LIMIT, 10 * LIMIT), check=False).returncode
            if status:
                print(f"{name}.end failed {ending(status)}", flush=True)
        except subprocess.TimeoutExpired:
            print(f"{name}.end failed it did not end", flush=True)


def rows(path):
    found = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(maxsplit=2)
            if len(words) >= 2 and words[0].split(".")[0] in FRAMEWORKS and "." in words[0]:
                found[words[0]] = words[1:]
    return found


def compare(native_path, ours_path):
    native, ours = rows(native_path), rows(ours_path)
    for name in [*native, *(name for name in ours if name not in native)]:
        mine, other = native.get(name, ["missing"]), ours.get(name, ["missing"])
        try:
            ratio = float(other[0]) / float(mine[0])
            a, b = float(mine[1]), float(other[1])
            same = "same result" if abs(a - b) <= 1e-3 * max(abs(a), abs(b), 1e-6) else f"DIFFERS: {a} and {b}"
            print(f"{name}: native {mine[0]} ms, through us {other[0]} ms, {ratio:.2f} times; {same}")
        except (ValueError, IndexError, ZeroDivisionError):
            print(f"{name}: native {' '.join(mine).strip()}; through us {' '.join(other).strip()}")


def main(arguments):
    global SMALL
    if len(arguments) == 3 and arguments[0] == "--compare":
        compare(arguments[1], arguments[2])
        return 0
    if arguments == ["--list"]:
        print(*(name for name in FRAMEWORKS if installed(name)))
        return 0
    if arguments[:1] == ["--small"]:
        SMALL = True
        arguments = arguments[1:]
    if len(arguments) == 3 and arguments[0] == "torch" and arguments[1].isdigit():
        try_torch_from(int(arguments[1]), int(arguments[2]))
        return 0
    if any(name not in FRAMEWORKS for name in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    if len(arguments) == 1:
        try_one(arguments[0])
    else:
        try_all(arguments or FRAMEWORKS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
