# SPDX-License-Identifier: MIT
"""Rows about hosts and devices that lie, the sandbox, and resets: what QEMU, the driver and the broker show."""

from bench import row


@row(21, "a reset of the device while it is busy", "workers are ended, rings forgotten, before it is acknowledged")
def reset(x):
    """vhost_test: a reset with clients at work and with a worker that does not end; qtest: resets without end, a reset
    of the machine; KUnit: resets behind the driver's back; in the guest: taken away and given back (row 20)."""
    n = x.n(1, 25)
    with x.rig():
        x.unit("host/backend/tests/tests", "vhost_test", "test_reset_ends_clients", "test_qemu_ends_and_returns", times=n)
        if x.short:
            x.exists("qemu-device/tests", ["reset_stops_every_queue_first", "reset_many_times"])
        else:
            x.qtest("reset_stops_every_queue_first", "reset_many_times", "system_reset_stops_the_service")
    x.kunit("vgpu_dev_reset_behind_its_back", "vgpu_guard_destroy_reset")


@row(22, "suspend and resume; migration", "refused with EBUSY while busy, migration blocked with a reason")
def suspend(x):
    """KUnit: freeze with a client is refused; qtest: migration is blocked, a pause keeps the service; in the guest:
    processes are frozen and thawed again and again (pm_test) while one computes (long form)."""
    with x.rig():
        if x.short:
            x.exists("qemu-device/tests", ["migration_is_blocked", "pause_keeps_the_service"])
        else:
            x.qtest("migration_is_blocked", "pause_keeps_the_service")
    x.kunit("vgpu_dev_freeze_with_client")
    x.guest()


@row(31, "a hostile host towards the guest's kernel", "the device is lost, -EIO; no access out of bounds")
def hostile_host(x):
    """KUnit: answers of wrong length, status, padding and number, events for nobody, floods, wrong configuration; hostile_backend: a
    backend that lies to libcuda; ring_test: lies in the window."""
    with x.rig():
        x.test("lying_backend")
    x.unit("lib/link", "ring_test", "test_hostile_headers", "test_hostile_reply", "test_hostile_notification")
    x.kunit("vgpu_client_answer_short", "vgpu_client_answer_long", "vgpu_client_answer_id_unused",
            "vgpu_client_answer_id_range", "vgpu_client_bad_events", "vgpu_client_event_flood",
            "vgpu_dev_refuses_magic", "vgpu_dev_recovery_is_checked")


@row(32, "a hostile worker", "it is killed; broker and QEMU live")
def hostile_worker(x):
    """process_test and limits_test: a worker that sends wrong messages, floods, leaves, keeps silent; vhost_hostile_test:
    one that cannot be ended, one that does not answer; all beside a victim."""
    n = x.n(1, 25)
    with x.rig():
        x.unit("host/backend/tests/tests", "process_test", "test_hostile_worker", times=n)
        x.unit("host/backend/tests/tests", "limits_test", "test_flooding_worker", "test_leaving_worker",
               "test_killed_spares", times=n)
    if not x.short:
        x.unit("host/backend/tests/tests", "vhost_hostile_test", "test_silent_worker", "test_stuck_worker")
    x.unit("host/backend/tests/broker", "share_test", "test_odd_messages", "test_strangers")


@row(35, "attempts to leave the sandbox", "a forbidden call ends the worker; no network, files, other processes")
def escape(x):
    """sandbox_test: every system call of three interfaces under both policies, with arguments and files;
    layers_test: hosts with fewer layers; confine_test: threads, descriptors and addresses of a worker;
    process_test: a worker that tries."""
    n = x.n(1, 5)
    with x.rig():
        x.unit("host/backend/tests/worker", "sandbox_test", "test_all_calls_soft", "test_all_calls_nvidia",
               "test_other_interfaces", "test_arguments", "test_soft_files", times=n)
        x.unit("host/backend/tests/worker", "layers_test", "test_without_layers", "test_private_files", times=n)
        x.unit("host/backend/tests/tests", "confine_test", "test_threads", "test_modes", "test_no_window_descriptor",
               "test_environment")
        x.unit("host/backend/tests/tests", "process_test", "test_sandbox_kills")


@row(37, "faults inside the guest's driver", "each path of probe, open, ioctl unwinds; nothing is leaked")
def driver_faults(x):
    """KUnit: the k-th allocation, page, descriptor or copy of the driver fails, for each k, in probe, open, CREATE, PIN
    and removal, in a User-Mode-Linux kernel; after each the driver works, and at the end everything was freed."""
    x.kunit("vgpu_fault_probe", "vgpu_fault_open", "vgpu_fault_create", "vgpu_fault_pins", "vgpu_fault_recovery")


