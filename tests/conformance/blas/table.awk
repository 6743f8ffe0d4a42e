# SPDX-License-Identifier: MIT
# docs/results/cublas.md out of lines "CAPABILITY CASE RESULT DETAIL". Variables: columns, date.
{
    if (!($2 in seen)) {
        seen[$2] = 1
        names[++n] = $2
    }
    result[$1, $2] = $3
    count[$1, $3]++
    why = $4
    sub(/ after [0-9]+ calls, largest error [^ ]* of what is tolerated/, "", why)
    sub(/^[a-zA-Z]*: /, "", why)
    sub(/^[0-9]+ calls, largest error [^ ]* of what is tolerated/, "wrong result", why)
    if ($3 == "right") {
        if ($1 == "default")
            detail[$2] = $4
    } else {
        key = $1 SUBSEP why
        if (!(key in reasons))
            order[++m] = key
        reasons[key] = reasons[key] (reasons[key] ? ", " : "") $2
    }
}
END {
    k = split(columns, cc, " ")
    print "# cuBLAS on the software GPU\n"
    print "Written by `make -C tests/conformance/blas table` on " date "."
    print "Each routine runs over the socket (`vgpu run`) with several shapes (including odd sizes), transposes,"
    print "factors and strides. Results are compared with sums in double precision on the CPU. *right*: every"
    print "element is within the rounding error allowed: one rounding of the accumulation type per product, two"
    print "of the result's type."
    print ""
    print "cuBLAS selects its kernels by the compute capability of the device, which is reported to it"
    print "separately (`VGPU_SOFT_LIBRARY_CC`, [software-gpu.md](../software-gpu.md)). The default is 13.0,"
    print "which no GPU has; cuBLAS then uses the kernels that it ships as PTX. For the other capabilities it"
    print "requests machine code, which this device refuses: the call fails and computes nothing."
    print ""
    line = "| routine |"
    rule = "|---|"
    for (i = 1; i <= k; i++) {
        line = line " " (cc[i] == "default" ? "default" : cc[i]) " |"
        rule = rule "---|"
    }
    print line " at the default |"
    print rule "---|"
    for (j = 1; j <= n; j++) {
        line = "| " names[j] " |"
        for (i = 1; i <= k; i++)
            line = line " " result[cc[i], names[j]] " |"
        print line " " detail[names[j]] " |"
    }
    line = "| right, of " n " |"
    for (i = 1; i <= k; i++)
        line = line " " count[cc[i], "right"] + 0 " |"
    print line " |"
    print ""
    print "Where a result is wrong and no call failed, cuBLASLt ignored the refusal of its first kernel and ran"
    print "its second (the trace shows both). Do not report a capability for which cuBLASLt has machine code."
    print "\nReasons of all other results:\n"
    for (i = 1; i <= m; i++) {
        split(order[i], part, SUBSEP)
        printf "* %s: %s: %s\n", part[1], part[2], reasons[order[i]]
    }
}
