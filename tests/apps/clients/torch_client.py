# SPDX-License-Identifier: MIT
"""PyTorch: the same on the GPU and on the processor. Prints a line per check."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.backends.cudnn.enabled = False  # Debian's cuDNN comes from elsewhere
torch.manual_seed(0)
bad = 0
x, y, v = torch.randn(64, 64), torch.randn(64, 64), torch.randn(10000)
image, weight = torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3)


def check(name, f, tolerance=1e-5):
    """f(device) gives a tensor or several; they must be alike on both devices."""
    global bad
    try:
        wanted, got = f("cpu"), f("cuda")
        wanted, got = ([t] if torch.is_tensor(t) else t for t in (wanted, got))
        off = max(((a.double() - b.detach().cpu().double()).abs().max() /
                   (a.double().abs().max() + 1e-30)).item() for a, b in zip(wanted, got))
        ok = off <= tolerance
    except RuntimeError as e:
        off, ok = str(e).splitlines()[0], False
    bad += not ok
    print(f"ok {name}" if ok else f"wrong {name}: {off}", flush=True)


def with_gradient(f, *inputs):
    def run(d):
        leaves = [t.clone().to(d).requires_grad_() for t in inputs]
        out = f(*leaves)
        out.backward()
        return [out.detach(), *(t.grad for t in leaves)]
    return run


def train(d):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to(d)
    steps = torch.optim.Adam(net.parameters(), lr=1e-2)
    data = torch.randn(64, 8, generator=torch.Generator().manual_seed(2)).to(d)
    for _ in range(20):
        steps.zero_grad()
        loss = F.mse_loss(net(data), data.sum(1, keepdim=True))
        loss.backward()
        steps.step()
    return loss.detach()


def transformer(d):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True).to(d)
    data = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(2)).to(d)
    loss = (layer(data) * torch.linspace(-1, 1, 32, device=d)).sum()
    loss.backward()
    return [loss.detach(), layer.linear1.weight.grad, layer.self_attn.in_proj_weight.grad]


def graph(d):
    if d == "cpu":
        return x * 2 + 1
    a, g = x.cuda(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        b = a * 2 + 1
    torch.cuda.synchronize()
    with torch.cuda.graph(g):
        b = a * 2 + 1
    g.replay()
    torch.cuda.synchronize()
    return b


check("sums, means, variances", lambda d: torch.stack([v.to(d).sum(), v.to(d).mean(), v.to(d).var()]))
check("exp, log, tanh, erf", lambda d: torch.log1p(x.to(d).exp()) + x.to(d).tanh() + y.to(d).erf())
check("softmax, layer_norm", lambda d: F.layer_norm(torch.softmax(x.to(d), -1), (64,)), 1e-4)
check("sort, topk", lambda d: [v.to(d).sort()[0], v.to(d).topk(10)[0]], 0)
check("cumsum", lambda d: v.to(d).cumsum(0))
check("indexing, unique", lambda d: [x.to(d)[torch.arange(63, -1, -1, device=d)], torch.unique((v * 3).int().to(d))], 0)
check("scatter_add", lambda d: torch.zeros(10, device=d).scatter_add_(0, torch.arange(10000, device=d) % 10, v.to(d)))
check("half, bfloat16, double", lambda d: [(x.to(d).half() * y.to(d).half()).float(),
                                           (x.to(d).bfloat16() + y.to(d).bfloat16()).float(), x.to(d).double().sin()])
check("complex numbers", lambda d: torch.view_as_real(torch.complex(x.to(d), y.to(d)) ** 2))
check("matrix products", lambda d: [x.to(d) @ y.to(d), x.to(d) @ y.to(d)[0], F.linear(x.to(d), y.to(d), y.to(d)[0]),
                                    torch.bmm(x.to(d).view(4, 16, 64), y.to(d).view(4, 64, 16))])
check("matrix products in half", lambda d: (x.to(d).half() @ y.to(d).half()).float() if d == "cuda"
      else x.half().float() @ y.half().float(), 1e-3)
check("convolution, pooling", lambda d: [F.conv2d(image.to(d), weight.to(d), padding=1), F.max_pool2d(image.to(d), 2)])
check("interpolation, embedding", lambda d: [F.interpolate(image.to(d), scale_factor=2, mode="bilinear"),
                                             F.embedding(torch.arange(10, device=d), x.to(d))])
check("attention", lambda d: F.scaled_dot_product_attention(*(x.to(d).view(1, 4, 16, 64),) * 3))
check("FFT", lambda d: torch.view_as_real(torch.fft.rfft(x.to(d))))
check("sparse matrix", lambda d: torch.sparse.mm(x.relu().to_sparse().to(d), y.to(d)))
check("gradients", with_gradient(lambda a, b: F.gelu(torch.tanh(a) @ b).sum(), x, y), 1e-4)
check("CUDA graph", graph, 0)
check("training", train, 1e-4)
check("transformer layer, forward and backward", transformer, 1e-4)
stats = torch.cuda.memory_stats()
check("memory statistics", lambda d: torch.tensor(float(stats["allocated_bytes.all.peak"] > 0)))
raise SystemExit(bad != 0)
