# SPDX-License-Identifier: MIT
"""smi_client.py NVIDIA-SMI NAME UUID MEMORY: what NVIDIA's own nvidia-smi shows of this process, which holds a context and 64 MiB.

Prints "ok WHAT" and "wrong WHAT" lines, as run.sh's lines() wants them.
"""
import ctypes
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

SMI, NAME, UUID, MEMORY = sys.argv[1:5]
PID = str(os.getpid())
EXECUTABLE = sys.executable
failed = False


def check(what, good, text):
    global failed
    print(("ok " if good else "wrong ") + what, flush=True)
    if not good:
        failed = True
        print(text[-2000:], file=sys.stderr)


def smi(*arguments):
    done = subprocess.run([SMI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout.decode(errors="replace")


def csv(*arguments):
    code, text = smi(*arguments, "--format=csv,noheader,nounits")
    return code, [[cell.strip() for cell in line.split(",")] for line in text.splitlines()], text


def table(text):
    """The one row of the device and the rows of processes."""
    return (len(re.findall(rf"\| +64MiB */ +{MEMORY}MiB +\|", text)) == 1
            and len(re.findall(rf"^\| +0 +N/A +N/A +{PID} +C +\S*{os.path.basename(EXECUTABLE)[:6]}\S* +64MiB \|$", text,
                               re.MULTILINE)) == 1)


def looped():
    """-l 1: two tables, then the end by SIGTERM."""
    process = subprocess.Popen([SMI, "-l", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = ""
    while text.count("Processes:") < 2:
        line = process.stdout.readline().decode(errors="replace")
        if not line:
            break
        text += line
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    process.wait(60)
    return text


cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
if (cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
        or cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20))):
    sys.exit("CUDA does not work")

code, text = smi()
check("table with this process", code == 0 and "NVIDIA-SMI" in text and table(text), text)
code, text = smi("-L")
check("-L", code == 0 and text.strip() == f"GPU 0: {NAME} (UUID: {UUID})", text)
code, rows, text = csv("--query-gpu=index,name,uuid,memory.total,memory.used,compute_cap,pci.bus_id,temperature.gpu")
check("--query-gpu", code == 0 and len(rows) == 1 and rows[0][:5] == ["0", NAME, UUID, MEMORY, "64"]
      and re.fullmatch(r"\d+\.\d", rows[0][5]) and re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:00.0", rows[0][6])
      and rows[0][7] == "[N/A]", text)
code, rows, text = csv("--query-compute-apps=pid,name,gpu_uuid,used_memory")
check("--query-compute-apps", code == 0 and len(rows) == 1 and rows[0][0] == PID and rows[0][2:] == [UUID, "64"]
      and "python" in rows[0][1], text)
code, text = smi("-q")
check("-q", code == 0 and re.search(rf"GPU UUID +: {UUID}\n", text) is not None
      and re.search(rf"Process ID +: {PID}\n +Type +: C\n", text) is not None
      and re.search(rf"FB Memory Usage\n +Total +: {MEMORY} MiB\n +Reserved +: 0 MiB\n +Used +: 64 MiB\n", text) is not None,
      text)
code, text = smi("-q", "-x")
try:
    gpu = ElementTree.fromstring(text).find("gpu")
    good = (gpu.findtext("uuid") == UUID and gpu.findtext("product_name") == NAME
            and gpu.findtext("fb_memory_usage/used") == "64 MiB"
            and [p.findtext("pid") for p in gpu.findall("processes/process_info")] == [PID])
except (ElementTree.ParseError, AttributeError):
    good = False
check("-q -x", code == 0 and good, text)
text = looped()
check("-l", text.count("Processes:") >= 2 and table(text[:text.rindex("NVIDIA-SMI")]), text)
code, text = smi("topo", "-m")
check("topo -m", code == 0 and re.search(r"^GPU0\t X ", text, re.MULTILINE) is not None, text)
code, text = smi("topo", "-p2p", "r")
check("topo -p2p", code == 0 and re.search(r"^ GPU0\tX", text, re.MULTILINE) is not None, text)
# These options need undocumented parts of NVML; nvidia-smi must report so and exit.
for what in "dmon", "pmon":
    code, text = smi(what, "-c", "1")
    check(f"{what}: says that it is not supported", code != 0 and text.startswith("Not supported on the device(s)"), text)
sys.exit(failed)
