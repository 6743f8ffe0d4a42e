# SPDX-License-Identifier: MIT
"""Rows 1 to 9 and others about bytes that a guest writes."""
import os
import subprocess
import time

from bench import peak_kib, row, ticks
from rig import children, ends, need, rss_kib


@row(1, "malformed ring entries", "that client is dead with a sticky error, others are unaffected")
def malformed(x):
    """fuzz: each field of a header, tails that jump, every call with too few, too many, random bytes,
    random changes to good streams, beside a victim; worker/ring_test for the bounds of the decoder."""
    n = x.n(4, 120)
    if x.short:
        x.test("fuzz")  # all attacks, beside a victim of its own
    else:
        with x.rig(rss=2048) as s:
            x.fuzz(s, seeds=n)
    x.did(n)
    x.unit("host/backend/tests/worker", "ring_test", "test_sizes", "test_fields", "test_tails", "test_end_of_ring")


@row(2, "double fetch on shared rings", "one copy: old or new bytes, never a mix with an unchecked size")
def double_fetch(x):
    """fuzz double_fetch: a thread flips bits of the records while the worker reads them, each round a client."""
    n = x.n(10, 400)
    with x.rig(rss=2048) as s:
        x.fuzz(s, "double_fetch", seeds=4 * n)
    x.did(n)


@row(3, "handle confusion", "INVALID_HANDLE, no effect, no information")
def handles(x):
    """attack retype: every type of handle to calls for other types, the same values from another client; attack
    order: live, stale and reused handles against a model; handle_test: generations, reuse."""
    n = x.n(1, 20)
    with x.rig() as s:
        for _ in range(n):
            x.attack(s, "retype")
        x.attack(s, "order", x.n(2000, 200000))
    x.did(n)
    x.unit("host/backend/tests/worker", "handle_test", "test_wrong_type", "test_stale_and_reused", "test_foreign")
    x.test("shared_strangers")


@row(4, "integer overflow in size, count, stride, pitch, dimensions", "a CUDA error before anything is allocated")
def overflow(x):
    """attack boundaries: every plain field of every call, from the protocol's own description, at 0, 1, 2^31,
    2^32, 2^63, 2^64 and beside them; victim dims: impossible launches."""
    n = x.n(1, 2)
    with x.rig("--vram-quota", "256M", "--blob-quota", "64M", rss=4096) as s:
        for _ in range(n):
            if not x.short:
                x.attack(s, "boundaries", timeout=1500)
            status, out = s.run(s.args.victim, "dims")
            need(status == 0, out)
            x.say(out.strip().replace("victim: ", ""))
    x.did(n)
    x.unit("host/backend/tests/worker", "ring_test", "test_sizes")


@row(5, "decode depth and amplification", "bounded by maxima; a client's memory is bounded")
def amplification(x):
    """Every call with every number at its maximum, and the largest claims for images, under --client-memory 256M
    and --blob-quota 64M: the peak memory of broker and workers is looked at while that runs."""
    n = x.n(1, 3)
    with x.rig("--client-memory", "256M", "--blob-quota", "64M", "--vram-quota", "64M", rss=2048) as s:
        base = {p: peak_kib(p) for p in children(s.backend.pid)}
        idle = max(base.values())
        start = rss_kib(s.backend.pid)
        worst = [0]
        for _ in range(n):
            p = s.popen(s.args.fuzz, s.socket, "--seeds", "4", *(["calls"] if not x.short else ["mutations"]))
            while p.poll() is None:
                worst[0] = max([worst[0]] + [peak_kib(c) for c in children(s.backend.pid)])
                time.sleep(0.05)
            need(p.returncode == 0, p.stdout.read().decode(errors="replace")[-300:])
        limit = idle + (256 + 64 + 64 + 32) * 1024
        x.say("peak of a worker: %d KiB, idle %d KiB, limit %d KiB" % (worst[0], idle, limit))
        need(worst[0] <= limit, "a worker took %d KiB" % worst[0])
        need(peak_kib(s.backend.pid) - start <= 16384, "the broker took %d KiB" % (peak_kib(s.backend.pid) - start))
    x.did(n)
    x.unit("host/backend/tests/tests", "limits_test", "test_blobs", "test_memory")
    x.unit("host/backend/tests/worker", "quota_test", "test_blob_limits")


@row(6, "declared memory is not there", "real sizes, seals required, hostile descriptors rejected")
def not_backed(x):
    """fuzz socket: MAP without a descriptor, with an unsealed one; transport_test, vu_queue_test, vhost_test:
    windows and RAM that are smaller than said, of a wrong kind, that could shrink."""
    n = x.n(2, 100)
    with x.rig() as s:
        for _ in range(n):
            code, out = s.run(s.args.fuzz, s.socket, "socket")
            need(code == 0, out[-300:])
    x.did(n)
    x.unit("lib/link", "transport_test", "test_shared_memory_refused", "test_refusals")
    x.unit("host/backend/tests/broker", "vu_queue_test", "test_regions", "test_ram_in_a_file")
    x.qtest("windows_are_a_sealed_memfd")


@row(7, "data of others", "zeroed across clients")
def residue(x):
    """faults.py residue: 32 MB of a pattern, the process killed or not, searched from the next one; share_test and
    transport_test for shared memory."""
    for _ in range(x.n(1, 20)):
        x.test("residue")
    x.needs_gpu("memory of a GPU after its process has ended (tests/hardware: firstcall)")


@row(8, "commands in a wrong order or state", "a state error, no crash")
def wrong_order(x):
    """attack order: random creation, destruction and use of streams and events, each answer compared with a
    model; QEMU's registers in any order; conformance cases of calls before cuInit and after destruction."""
    n = x.n(5000, 400000)
    with x.rig() as s:
        x.attack(s, "order", n)
        x.attack(s, "retype")
    x.did(n)
    if x.short:
        x.exists("qemu-device/tests", ["random_register_accesses"])
    else:
        x.qtest("random_register_accesses", "some_queues_not_set_up", "doorbell_of_no_queue_is_inert")
    x.unit("host/backend/tests/tests", "stale_test", "test_levels", "test_context", "test_event")


@row(9, "DMA into the device's own registers", "rejected or inert")
def own_registers(x):
    """qtest: queues whose rings lie in the device's windows, its doorbells, its registers: refused, no recursion,
    and the next start is served."""
    if x.short:
        x.exists("qemu-device/tests", ["rings_in_the_device_itself"])
        x.leave_out("short form: qemu-device's check runs rings_in_the_device_itself")
    else:
        for _ in range(x.n(1, 3)):
            x.qtest("rings_that_cannot_be_served", "rings_in_the_device_itself")
    x.unit("host/backend/tests/broker", "vu_queue_test", "test_addresses", "test_broken_ring", "test_buffers_outside")


@row(26, "completions out of order; sequence numbers wrap", "each waiter sees its own, in order inside a stream")
def out_of_order(x):
    """attack wrap: eight calls in flight while the sequence passes 2^32; victim streams: 16 streams with work of any
    length, waited for in any order; ring_test: replies in any order."""
    n = x.n(3, 150)
    with x.rig(rss=2048) as s:
        x.attack(s, "wrap", x.n(500, 40000))
        code, out = s.run(s.args.victim, "streams", str(n), timeout=600)
        need(code == 0, out)
        x.say(out.strip().replace("victim: ", ""))
    x.did(n)
    x.unit("lib/link", "ring_test", "test_many_outstanding", "test_threads")


@row(27, "a reader that stopped, full rings", "back-pressure on the producer only, no unbounded queue")
def slow_reader(x):
    """A program whose output nobody reads, stopped by SIGSTOP, with kernels that print without end; workers stopped
    while their program goes on: the broker's memory stays, the victim is right, both end when killed."""
    n = x.n(1, 10)
    with x.rig(rss=2048) as s:
        for _ in range(n):
            talker = s.popen(s.args.victim, "talk")
            need(b"working" in talker.stdout.readline(), "the talker does not begin")
            beside = set(children(s.backend.pid))
            talker.send_signal(19)
            before = rss_kib(s.backend.pid)
            sizes = {p: rss_kib(p) for p in beside}
            time.sleep(x.n(1, 4))
            grown = rss_kib(s.backend.pid) - before
            need(grown <= 1024, "the broker grew by %d KiB" % grown)
            for p in children(s.backend.pid):
                need(rss_kib(p) - sizes.get(p, rss_kib(p)) <= 65536 + 16384, "a worker grew beyond --client-printf")
            talker.kill()
            talker.wait()
            talker.stdout.close()
    x.did(n)
    x.unit("lib/link", "ring_test", "test_full_ring_slow_worker", "test_prints_with_full_ring", "test_wrap_and_full")
    x.test("worker_stopped")


@row(28, "doorbell and interrupt storm", "coalesced; the broker takes no processor; the victim is served")
def storm(x):
    """attack bells: 16 clients ring without end with nothing in the ring, in several processes; doorbells do not pass
    through the broker, whose processor time is compared with that of the storm. The quarantine and the waking after
    the storm are models (row 29)."""
    n = x.n(20000, 400000)
    with x.rig() as s:
        was = ticks(s.backend.pid)
        many = [s.popen(os.path.join(s.args.build, "attack"), s.socket, "bells", str(n // 16)) for _ in range(2)]
        began = os.times().elapsed
        for p in many:
            code, out = ends(p, 600)
            need(code == 0, out)
        spent = ticks(s.backend.pid) - was
        wall = (os.times().elapsed - began) * os.sysconf("SC_CLK_TCK")
        x.say("%d doorbells; the broker took %d of %d ticks" % (2 * n, spent, wall))
        # The time includes starting and ending 32 workers.
        need(spent <= wall / 2 + 50, "the broker took %d of %d ticks" % (spent, wall))
    x.did(2 * n)
    x.unit("host/backend/tests/broker", "vu_device_test", "test_full_queue", "test_bucket")


@row(29, "lost wake-up, suppressed kick", "none")
def wake_up(x):
    """spin: models of sleeping and waking, of grace periods and of quarantined slots, searched exhaustively; each of
    their mutations (a fence, a second look left out) must be found. Then millions of calls by pairs that sleep."""
    out = subprocess.run(["sh", os.path.join(os.path.dirname(__file__), "models/check.sh"),
                          os.path.join(x.args.build, "models"), "short" if x.short else "all"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         stdin=subprocess.DEVNULL, timeout=1800)
    text = out.stdout.decode(errors="replace")
    for line in text.splitlines():
        if line.startswith("FAIL") or line.startswith("models: "):
            x.say(line.replace("FAIL: ", "failed: "))
    need(out.returncode == 0, "a model fails")
    if "not run: models" in text:
        x.leave_out("spin is not installed")
    else:
        x.did(text.count("ok   model"))
    n = x.n(2000, 200000)
    with x.rig() as s:
        x.attack(s, "wrap", n)
        code, out = s.run(s.args.victim, "count", str(x.n(500, 20000)), timeout=900)
        need(code == 0, out)
    x.did(8 * n)
    x.unit("lib/link", "ring_test", "test_sleep_and_wake")


@row(33, "forged completions", "the forger harms itself; broker and others keep counters of their own")
def forged(x):
    """attack forge: a client writes random words to its replies, notifications, wake-up words and header while it
    makes calls, beside a victim; extsem_test: answers that nobody asked for."""
    n = x.n(10000, 1000000)
    with x.rig(rss=2048) as s:
        x.attack(s, "forge", n, timeout=1200)
        code, out = s.run(s.args.fuzz, s.socket, "scribble")
        need(code == 0, out[-300:])
    x.did(n)
    x.unit("host/backend/tests/tests", "extsem_test", "test_answers", "test_answers_late")
    x.unit("lib/link", "ring_test", "test_hostile_reply", "test_hostile_head", "test_hostile_notification")


@row(34, "hostile PTX, fat binary, cubin, ELF", "parsed in the worker only; caps on sizes")
def hostile_images(x):
    """tests/ptx/fuzz: libFuzzer with ASan and UBSan on images, cubins, PTX and kernels; fuzz wild: images that claim more
    than they have, beside a victim."""
    with x.rig() as s:
        x.fuzz(s, "wild", seeds=4)
    x.did(1)
    build = os.path.join(x.args.top_build, "tests/ptx/fuzz")
    source = os.path.join(x.args.top, "tests/ptx/fuzz")
    if x.short:
        x.exists("tests", ["fuzz_ptx", "fuzz_image", "fuzz_sass", "fuzz_exec"])
        x.leave_out("short form: tests/ptx/fuzz's check runs fuzz_image, fuzz_sass, fuzz_ptx, fuzz_exec")
    elif not os.path.exists(os.path.join(build, "fuzz_ptx")) or not os.path.isdir(source):
        x.leave_out("tests/ptx/fuzz is not built")
    else:
        seconds = max(5, int(20 * x.args.cycles))
        out = x.program("sh", os.path.join(source, "run.sh"), build, source, "check", str(seconds), timeout=3600)
        x.did(out.count(": no finding"), out.strip().splitlines()[-1])
    x.needs_gpu("a crash of NVIDIA's compiler inside the sandbox")


@row(36, "log flooding by a guest", "rate-limited, with counts of what was suppressed")
def flood(x):
    """attack deaths and knocks: clients that end malformed, connections that are refused, as fast as they can; the log's
    size over the time is at most 1 MiB a minute, beyond a first burst of 64 KiB, and it says how many were left out."""
    n = x.n(100, 6000)
    deaths = max(n // 2, 200)  # two lines each; all clients together may cause 160 a second
    with x.rig("--start-rate", "10000") as s:
        log = os.path.join(s.folder, "backend.log")
        began, size = time.monotonic(), os.path.getsize(log)
        x.attack(s, "knocks", n * 5)
        x.attack(s, "deaths", deaths, timeout=1200)
        x.attack(s, "knocks", n * 5)
        time.sleep(1.1)  # the limit counts by seconds; the count comes with the next line
        x.attack(s, "deaths", 1)
        took, grown = time.monotonic() - began, os.path.getsize(log) - size
        limit = 65536 + took * (1 << 20) / 60
        x.say("%d bytes of log in %.1f s for %d events" % (grown, took, n * 10 + deaths))
        need(grown <= limit, "%d bytes of log in %.1f s" % (grown, took))
        with open(log, errors="replace") as f:
            text = f.read()
        lines = text.count("malformed ring: record size")
        need(lines >= 2 * (deaths + 1) or "were dropped" in text, "the log does not say how many lines were dropped")
    x.did(n * 10)
    x.unit("host/backend/tests/tests", "vhost_hostile_test", "test_log")


@row(38, "version skew", "negotiated, or refused with a clear message")
def versions(x):
    """Brokers and drivers that are older and newer, over the socket (process_test, fuzz socket, transport_test) and
    in QEMU (qtest)."""
    n = x.n(20, 500)
    with x.rig() as s:
        x.attack(s, "knocks", n)
    x.did(n)
    x.unit("host/backend/tests/tests", "process_test", "test_older_protocol", "test_hello")
    x.unit("host/backend/tests/broker", "vu_msg_test", "test_config_negotiation", "test_sizes")
    x.unit("lib/link", "transport_test", "test_refusals")
    if x.short:
        x.exists("qemu-device/tests", ["broker_is_newer", "broker_is_older"])
    else:
        x.qtest("broker_is_newer", "broker_is_older", "lesser_broker_comes_back", "broker_has_wrong_magic")
    x.exists("kernel/vgpu_drv", ["vgpu_check_config_version"])
