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
    sub(/^[0-9]+ calls, largest error [^ ]* of what is tolerated/, "the result is not right", why)
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
    print "Written by `make -C tests/conformance/blas table`: each routine over the socket (`vgpu run`), with several shapes (odd ones too),"
    print "transposes, factors and strides, against sums in double on the CPU. Right means that every element is within what"
    print "rounding allows: one rounding of the type in which sums are kept per product, two of the type of the result. " date "."
    print ""
    print "cuBLAS chooses its kernels by the device's compute capability, which it is told separately (`VGPU_SOFT_LIBRARY_CC`,"
    print "docs/software-gpu.md). The default is 13.0, which no GPU has: then cuBLAS takes what it ships as PTX. For the others it"
    print "asks for machine code, which this device refuses; the call fails, and nothing is computed."
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
    print "\nWhere a result is wrong and nothing failed, cuBLASLt passed over the refusal of its first kernel and ran its second"
    print "(the trace shows the one refused and the other run): a reason not to tell it a capability whose machine code it has."
    print "\nWhy not right:\n"
    for (i = 1; i <= m; i++) {
        split(order[i], part, SUBSEP)
        printf "* %s: %s: %s\n", part[1], part[2], reasons[order[i]]
    }
}
