# SPDX-License-Identifier: MIT
"""python3-pynvml: what NVML says, a name a line, for run.sh to compare."""
import pynvml as n

n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
text = lambda s: s.decode() if isinstance(s, bytes) else s
memory = n.nvmlDeviceGetMemoryInfo(h)
print("count", n.nvmlDeviceGetCount())
print("name", text(n.nvmlDeviceGetName(h)))
print("uuid", text(n.nvmlDeviceGetUUID(h)))
print("total", memory.total >> 20)
print("consistent", memory.used + memory.free == memory.total)
print("driver", text(n.nvmlSystemGetDriverVersion()))
print("cuda", n.nvmlSystemGetCudaDriverVersion())
print("capability", "%d.%d" % n.nvmlDeviceGetCudaComputeCapability(h))
same = n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))
print("by_uuid", n.nvmlDeviceGetIndex(same))
print("bus", text(n.nvmlDeviceGetPciInfo(h).busId))
try:
    n.nvmlDeviceGetHandleByIndex(77)
    print("index_77 answered")
except n.NVMLError_InvalidArgument:
    print("index_77 refused")
n.nvmlShutdown()
try:
    n.nvmlDeviceGetCount()
    print("after_shutdown answered")
except n.NVMLError_Uninitialized:
    print("after_shutdown refused")
