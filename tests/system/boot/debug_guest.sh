#!/bin/sh
# SPDX-License-Identifier: MIT
#
# debug_guest.sh BUILD DRIVER SEEDS CHECKER SECONDS SELFTEST: run by debug.sh in the guest. The checks of guest.sh without
# the conformance suite, the driver's selftest "hostile" for SECONDS during which the device is removed, random ioctls with
# SEEDS more seeds. Fails on any complaint in the kernel's log, on unreferenced memory of the driver (kasan), and on a data
# race with the driver in either stack (kcsan).
build=$1
driver=$2
seeds=$3
checker=$4
hostile=$5
selftest=$6
here=$(dirname "$0")
leaks=/sys/kernel/debug/kmemleak
passed=0
failed=0

result() { # NAME STATUS TEXT
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "debug.$1 ok"
    else
        failed=$((failed + 1))
        echo "FAIL: debug.$1: $3"
    fi
}

mount -t debugfs none /sys/kernel/debug 2> /dev/null
[ "$checker" = kasan ] && checkers="KASAN DEBUG_KMEMLEAK" || checkers=KCSAN
for what in PROVE_LOCKING $checkers; do
    case $what in
    KASAN) grep -q kasan_report /proc/kallsyms ;;
    KCSAN) grep -q kcsan_setup_watchpoint /proc/kallsyms ;;
    PROVE_LOCKING) test -e /proc/lockdep_stats ;;
    *) test -e $leaks ;;
    esac
    result "kernel_has_$what" $? "this kernel has no $what"
done
[ ! -e $leaks ] || echo clear > $leaks
BOOT_NO_SUITES=1 sh "$here/guest.sh" "$build" "$driver" > guest.out
tail -n 1 guest.out | grep -q ' 0 failed'
result guest $? "$(grep FAIL guest.out)"
sed 's/^/  /' guest.out
"$selftest" --unbind --only hostile --seconds "$hostile" > hostile.log 2>&1
result hostile $? "$(cat hostile.log)"
sed 's/^/  /' hostile.log
rounds=0
for seed in $(seq 100 $((99 + seeds))); do
    "$build/system/boot/ioctl_fuzz" "$seed" 3000 > ioctl_fuzz.log 2>&1 || break
    rounds=$((rounds + 1))
done
result ioctl_fuzz $((rounds != seeds)) "seed $seed: $(tail -n 2 ioctl_fuzz.log)"
"$build/system/faults/victim" once > /dev/null
result works_after $? "a program does not work any more"
if [ -e $leaks ]; then
    # Scans twice, so that memory being freed during the first scan does not count as a leak.
    for _ in 1 2; do
        echo scan > $leaks
        sleep 6
    done
    grep -A 20 '^unreferenced' $leaks > leaks.log
    ! grep -q vgpu leaks.log
    result kmemleak $? "$(head -n 30 leaks.log)"
    echo "  unreferenced objects of others: $(grep -c ^unreferenced leaks.log)"
fi
dmesg > kernel.txt
if [ "$checker" = kcsan ]; then
    # The kernel has known data races of its own: only the driver's fail. Lines of '=' delimit a report.
    sed 's/^\[[^]]*\] *//' kernel.txt | awk '
        /^=====/ { if (inside && text ~ /vgpu/) { print text; ours++ } else if (inside) others++; inside = 0; next }
        /^BUG: KCSAN/ { inside = 1; text = "" }
        inside { text = text $0 "\n" }
        END { print "  races of others: " others + 0; exit ours > 0 }' > races.log
    result races $? "$(cat races.log)"
    tail -n 1 races.log
    sed -i '/BUG: KCSAN/d' kernel.txt
fi
! grep -nE 'BUG:|WARNING:|INFO: (possible|trying|task)|Oops|general protection|UBSAN|KASAN:|ODEBUG|refcount_t' kernel.txt
result kernel_log $? "the kernel complains"
# lockdep disables itself after its first complaint, or when its tables are full.
grep -q 'debug_locks: *1' /proc/lockdep_stats
result lockdep_on $? "$(grep -E 'debug_locks' /proc/lockdep_stats)"
grep -E 'lock-classes|direct dependencies|dependency chains' /proc/lockdep_stats
echo "  $rounds times 3000 random ioctls and mappings, on Linux $(uname -r)"
echo "debug: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
