# SPDX-License-Identifier: MIT
# Sums the log of one folder's check. Variables: folder, rc (its exit status), seconds, cpu (seconds).
# Prints one line for the folder, then one for each failed and each skipped test.
/^[^ :]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
    runners++
    passed += $2
    failed += $4
    skipped += $6
    if ($2 + $4 + $6 == 0) {
        faults[++m] = "FAIL: " folder ": " $1 " ran no test"
        failed++
    }
}
/^not run: / { reasons[++n] = $0 }
# cmocka's: the values that differ and the line of the test, before the test's name.
/(^| )(FAIL|FAILED|not ok)([ :]|$)|^\[ +(ERROR|LINE) +\]/ && m < 40 { faults[++m] = $0 }
END {
    if (!runners) {
        faults[++m] = "FAIL: " folder ": its check printed no result (exit status " rc ")"
        failed++
    } else if (rc != 0 && failed == 0) {
        faults[++m] = "FAIL: " folder ": its check ended with status " rc
        failed++
    }
    printf "  %s: %d passed, %d failed, %d skipped (%d s, processors %d s)\n", folder, passed, failed, skipped, seconds, cpu
    for (i = 1; i <= m; i++)
        print "      " faults[i]
    for (i = 1; i <= n; i++)
        print "      " reasons[i]
}
