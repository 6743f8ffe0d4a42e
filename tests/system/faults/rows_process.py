# SPDX-License-Identifier: MIT
"""Rows about processes that die, crash, hang or come in crowds, and about resources that run out."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../inject"))
from bench import row  # noqa: E402
from faults import is_running  # noqa: E402
from page import Page  # noqa: E402
from rig import children, ends, need, until_waiting, wait_until  # noqa: E402


@row(10, "a guest process killed with work in flight", "its worker ends, its GPU memory is returned")
def process_killed(x):
    """Programs killed after a random time of their life, beside a victim: no descriptor, no worker, no memory and no
    share of the device memory's quota is left."""
    n = x.n(25, 1000)
    rng = random.Random(7)
    with x.rig("--vram-quota", "256M") as s:
        for i in range(n):
            p = s.popen(s.args.victim, "work" if i % 4 else "secret", "30")
            time.sleep(rng.random() * 0.15)
            p.kill()
            p.wait()
            p.stdout.close()
        for _ in range(2):
            p = s.popen(s.args.victim, "busy")
            until_waiting(p)
            p.kill()
            p.wait()
            p.stdout.close()
        s.settle()
        code, out = s.run(s.args.victim, "hoard", "300", timeout=200)
        need(code == 0 and int(out.split()[1]) >= 240, "of a quota of 256 MB is left: " + out)
    x.did(n)


@row(11, "a worker crashes", "a sticky error, all waits return; a new process works at once")
def worker_crashes(x):
    """Workers killed at random points of a program (SIGKILL, SIGSEGV, SIGSYS) beside the victim of another backend;
    process_test: a crash inside a call, a forbidden system call; limits_test: out of memory. bereft: each
    blocking call and each pending callback ends with an error, also of a worker that was stopped (SIGSTOP) before."""
    n = x.n(6, 400)
    rng = random.Random(11)
    with x.rig(), x.rig(victim=False) as s:
        for i in range(n):
            p = s.popen(s.args.victim, "work" if i % 3 else "wait", "30")
            time.sleep(rng.random() * 0.3)
            while p.poll() is None:  # spare ones as well: one that was taken late is hit by the next round
                for pid in children(s.backend.pid):
                    try:
                        os.kill(pid, (signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS)[i % 3])
                    except ProcessLookupError:
                        pass
                wait_until(lambda: p.poll() is not None, 1)
            code, out = ends(p, 20)
            # 'wait' exits with 0 if its waits returned errors; its earlier calls return them as well.
            need(code == 0 or (code == 1 and "returns" in out), "status %d: %s" % (code, out))
            if i % 8 == 7:
                s.works()
    x.did(n)
    x.unit("host/backend/tests/tests", "process_test", "test_worker_crashes", "test_sandbox_kills", "test_worker_killed")
    x.unit("host/backend/tests/tests", "limits_test", "test_memory")
    x.test("bereft_killed", "bereft_stopped")


@row(12, "the broker crashes and is started again", "in-flight calls fail once, nothing is executed twice; QEMU survives")
def broker_crashes(x):
    """kill -9 of a broker with a waiting and a working program, beside a victim of another one: both get an error, no
    worker is left, the next broker serves. For QEMU: qtest broker_dies, broker_comes_back."""
    n = x.n(4, 100)
    with x.rig(), x.rig(victim=False) as s:
        for i in range(n):
            wait = s.popen(s.args.victim, "wait")
            until_waiting(wait)
            work = s.popen(s.args.victim, "count", "1000000")
            need(b"working" in work.stdout.readline(), "it does not begin")
            before = list(children(s.backend.pid))
            s.backend.kill()
            s.backend.wait()
            code, out = ends(wait, 30)
            need(code == 0, "the waiting program: status %d: %s" % (code, out))
            code, out = ends(work, 30)
            need(code == 1 and "returns" in out, "the working program: status %d: %s" % (code, out))
            need(wait_until(lambda: not any(is_running(pid) for pid in before), 10), "workers are left")
            s.start()
            if i % 8 == 7 or i == n - 1:
                s.works()
        s.settle()
    x.did(n)
    x.test("bereft_broker")
    if x.short:
        x.exists("qemu-device/tests", ["broker_dies", "broker_comes_back"])
    else:
        x.qtest("broker_dies", "broker_comes_back", "broker_falls_silent")


@row(14, "a sticky error of the GPU", "only that client is poisoned, with NVIDIA's code; the next process is clean")
def sticky(x):
    """victim oob (700), beside a victim; conformance cases sticky_* for
    700, 710 and 715 to 719."""
    n = x.n(10, 500)
    with x.rig() as s:
        for _ in range(n):
            code, out = s.run(s.args.victim, "oob")
            need(code == 0, out)
    x.did(n)
    conform = os.path.join(x.args.top_build, "tests/conformance/driver/conform")
    if x.short or not os.path.exists(conform):
        x.exists("tests", ["CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_ASSERT"])
    else:
        with x.rig() as s:
            code, out = s.run(conform, "sticky_*", "trap_wild_address", timeout=900)
            need(code == 0 and " 0 failed" in out.strip().splitlines()[-1], out[-500:])
            x.did(1, out.strip().splitlines()[-1])
    x.needs_gpu("the victim's stall beside a native one's")


@row(15, "the GPU is lost; a kernel over its time limit", "all clients get an error, nobody waits for ever, no busy loop")
def gpu_lost(x):
    """A provider that is lost on a signal (liblost.so): programs that wait and that work get an error within a bound,
    their workers take no processor afterwards, a victim of another backend notices nothing; a new broker, that is
    a driver that was loaded again, serves. VGPU_SOFT_WATCHDOG: a kernel that never ends gives 702, sticky, to
    its own process only."""
    n = x.n(2, 30)
    lost = os.path.join(x.args.build, "liblost.so")
    if os.path.exists(lost):
        folder = os.path.join(x.args.scratch, "lost")
        os.makedirs(folder, exist_ok=True)
        os.chmod(x.args.scratch, 0o755)
        soft = os.path.join(x.args.top_build, "host/softgpu/libcuda-soft.so.1")
        for part in (lost, soft):
            shutil.copy(part, folder)
        with x.rig():
            for _ in range(n):
                gpu_is_lost(x, os.path.join(folder, "liblost.so"))
        shutil.rmtree(folder)
        x.did(n)
    else:
        x.leave_out("liblost.so is not built: host/softgpu is not")
    with x.rig(env={"VGPU_SOFT_WATCHDOG": "20000000"}) as s:
        for _ in range(n):
            p = s.popen(s.args.victim, "wait")
            code, out = ends(p, 120)
            need(code == 0 and "returns 702, then 702" in out, "over the limit: status %d: %s" % (code, out))
    x.did(n)
    x.needs_gpu("Xid 79, a reset of the host's driver")


def gpu_is_lost(x, lost):
    with x.rig("--provider", lost, victim=False) as s:
        wait = [s.popen(s.args.victim, "wait") for _ in range(2)]
        for p in wait:
            until_waiting(p)
        work = s.popen(s.args.victim, "work", "1000")
        time.sleep(0.2)
        s.settle()
        for pid in children(s.backend.pid):
            os.kill(pid, signal.SIGUSR1)
        for p in wait:
            code, out = ends(p, 20)
            need(code == 0, "a wait: status %d: %s" % (code, out))
            need("the wait returns 46, then 46" in out, "another error: " + out)
        code, out = ends(work, 20)
        need(code == 1 and "returns 46" in out, "the working program: status %d: %s" % (code, out))
        s.restart()  # the programs are gone; a driver that was loaded again serves
        s.settle()


@row(16, "device memory is exhausted by a hoarder", "out of memory, quotas, the victim's share is served")
def hoarder(x):
    """victim hoard and victim modules to the end of --vram-quota, again and again, beside a victim that allocates;
    faults.py memory_quota: the quota to the megabyte, graphs, modules, memory of those that ended."""
    n = x.n(3, 100)
    with x.rig("--vram-quota", "256M", rss=2048) as s:
        first = None
        for i in range(n):
            code, out = s.run(s.args.victim, "hoard" if i % 3 else "modules", "300", timeout=300)
            need(code == 0, out)
            got = int(out.split()[1])
            first = got if i % 3 == 1 and first is None else first
            need(i % 3 == 0 or got == first, "%d MB, %d MB the first time" % (got, first or 0))
    x.did(n)
    x.test("memory_quota")
    x.unit("host/backend/tests/tests", "memory_test", "test_vmm_quota", "test_idle_gives_back", "test_rounding_and_limits")


def walk(x, s, page, kinds, limits, who):
    """Fails the k-th call of each kind, for each k until a program runs through without meeting it."""
    done = 0
    for kind in kinds:
        for k in limits(kind):
            page.arm(kind, k)
            try:
                code, out = s.run(s.args.victim, "once", timeout=60)
            except subprocess.TimeoutExpired:
                page.disarm()
                raise
            s.settle_soon()
            fired = page.disarm()
            need(s.backend.poll() is None, "%s: the broker ended when %s %d failed" % (who, kind, k))
            need(code == 0 or (code == 1 and ("returns" in out or "wrong" not in out)),
                 "%s, %s %d: status %d: %s" % (who, kind, k, code, out))
            code, out = s.run(s.args.victim, "once", timeout=60)
            need(code == 0, "%s: after the failure of %s %d the next program fails: %s" % (who, kind, k, out))
            done += 1
            if not fired:
                break
    return done


@row(17, "host memory, descriptors, processes are exhausted", "every path returns an error, nothing is leaked")
def exhausted(x):
    """inject.so, preloaded into the broker, then into its workers: the k-th malloc, mmap, socket, descriptor, process,
    thread, epoll_ctl fails, for each k, while a program runs; the broker lives, the next program works, and
    at the end nothing is left. A worker may end, never by a signal."""
    inject = os.path.join(x.args.build, "inject.so")
    folder = os.path.join(x.args.scratch, "inject")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    os.chmod(x.args.scratch, 0o755)
    page = Page(folder)
    most = {"memory": x.n(3, 120), "mapping": x.n(2, 60)}

    def limits(kind):
        return range(1, most.get(kind, x.n(2, 40)) + 1)

    broker = ("memory", "socket", "descriptor", "process", "watch", "mapping")
    with x.rig(env=page.environment(inject), rss=2048) as s:
        s.settle_soon = lambda: time.sleep(0.05)
        x.did(walk(x, s, page, broker, limits, "broker"))
    real = os.path.join(os.path.dirname(x.args.backend), "vgpu-worker")
    with x.rig(), x.rig("--worker", page.worker(folder, inject, real), victim=False, rss=2048) as s:
        s.settle_soon = lambda: time.sleep(0.05)
        x.did(walk(x, s, page, ("memory", "mapping", "thread", "descriptor"), limits, "worker"))
        with open(os.path.join(s.folder, "backend.log"), errors="replace") as f:
            crashed = [l.strip() for l in f if "ended by signal" in l and "(Killed)" not in l]
        need(not crashed, "a worker crashed: " + "; ".join(crashed[:3]))
    shutil.rmtree(folder, ignore_errors=True)


@row(18, "an infinite kernel", "killable; the victim is served meanwhile")
def infinite(x):
    """Programs with a kernel that never ends, killed, beside a victim that works all the time; their workers end."""
    n = x.n(4, 150)
    with x.rig() as s:
        for _ in range(n):
            p = s.popen(s.args.victim, "busy")
            until_waiting(p)
            p.kill()
            p.wait()
            p.stdout.close()
            need(wait_until(lambda: s.workers() <= s.baseline + 1, 20), "its worker goes on")
    x.did(n)
    x.needs_gpu("the victim's latency beside the time slice of a GPU")


@row(25, "a thousand processes, at once and one after the other", "success or a clean error for each")
def crowd(x):
    """Programs in crowds and in sequence, beyond --max-clients in the second part: each is right or is refused, the
    broker's memory and descriptors are as before."""
    at_once, n = x.n(8, 24), x.n(2, 40)
    with x.rig(rss=1024) as s:
        for _ in range(n):
            many = [s.popen(s.args.victim, "once") for _ in range(at_once)]
            for p in many:
                code, out = ends(p, 300)
                need(code == 0, out)
    with x.rig("--max-clients", "4", rss=1024) as s:
        for _ in range(n):
            many = [s.popen(s.args.victim, "once") for _ in range(at_once)]
            for p in many:
                code, out = ends(p, 300)
                need(code == 0 or "cuInit" in out, out)
    x.did(2 * n * at_once)
    x.test("client_limit", "storm")
    x.unit("host/backend/tests/tests", "limits_test", "test_start_rate")


@row(23, "fork() in the guest, with and without exec", "the child is not initialized; the parent is unaffected")
def forks(x):
    """victim fork: children that use CUDA and that start a program of their own, while the parent works; in the guest
    the same over the driver (long form), and boot_tool fork for the mappings."""
    n = x.n(32, 256)
    with x.rig() as s:
        code, out = s.run(s.args.victim, "fork", str(n), timeout=600)
        need(code == 0, out)
    x.did(n)
    x.unit("lib/link", "transport_test", "test_forked")
    x.guest()


@row(30, "signals during calls", "the same results, nothing submitted twice")
def signals_during(x):
    """victim count signals: a timer without SA_RESTART each millisecond during launches, copies and waits on the same
    memory: one launch too many or too few shows in every word. The same in the guest (long form)."""
    n = x.n(1500, 40000)
    with x.rig() as s:
        code, out = s.run(s.args.victim, "count", str(n), "signals", timeout=900)
        need(code == 0, out)
        x.say(out.strip().splitlines()[-1].replace("victim: ", ""))
    x.did(n)
    x.guest()


@row(39, "a host that stalls, a guest that is paused", "late but right, or a clean error; nothing is executed twice")
def stalls(x):
    """Broker, workers and program stopped (SIGSTOP) in turn for seconds while launches are counted; in the guest QEMU
    as well (long form). Every word shows a launch that was made twice."""
    n = x.n(2, 20)
    seconds = 0.5 if x.short else 3
    with x.rig(victim=False) as s:
        for i in range(n):
            beside = x.victim(s)
            p = s.popen(s.args.victim, "count", "3000")
            need(b"working" in p.stdout.readline(), "it does not begin")
            for pid in [s.backend.pid] + list(children(s.backend.pid)) + [p.pid]:
                try:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(seconds / 2)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass  # a worker that has done its work
            code, out = ends(p, 300)
            need(code == 0, out)
            x.victim_ends(beside)
    x.did(n * 3)
    if not x.short:
        x.paused_guest()
    x.exists("qemu-device/tests", ["pause_keeps_the_service"])
    x.exists("kernel/vgpu_drv", ["vgpu_client_deadline"])
