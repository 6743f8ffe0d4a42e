# SPDX-License-Identifier: MIT
# docs/results/ptx-census.md from *.ops and *.out of the census. Variables: must (names of libraries), date.
BEGIN {
    FS = "\t"
    n = split(must, order, " ")
    for (i = 1; i <= n; i++)
        required[order[i]] = 1
    print "# Which PTX the software GPU decodes"
    print ""
    print "Written by `make census` (tests/ptx/census) on " date ". Every kernel of every"
    print "fat binary in a library, for every architecture with PTX, is translated by the front end into the"
    print "interpreter's instructions. *Decoded* means that this succeeded; other tests check what the"
    print "instructions compute. *Spellings* counts distinct instruction words, such as `ld.global.nc.v4.u32`."
    print "A kernel that occurs in several modules is counted each time."
    print ""
    header = "| library | PTX for | modules | MB of text | kernels | decoded | | spellings |\n|---|---|---|---|---|---|---|---|"
}
FILENAME ~ /\.ops$/ {
    spellings[$1, $2]++
    next
}
/^FAIL: / {
    split($0, word, " ")
    why = $0
    sub(/^.*: line [0-9]+: /, "", why)
    sub(/ *\(line.*$/, "", why)
    sub(/^call [^:]*: /, "call of another module: ", why)
    sub(/\.[^:]*: this instruction/, ": this instruction", why)
    if (!((word[2], why) in reasons))
        reason_order[word[2]] = reason_order[word[2]] SUBSEP why
    reasons[word[2], why]++
    next
}
{
    row = sprintf("| %s | %s | %d | %.0f | %d | %d | %s | %d |", $1, $2 == "-" ? "none" : "compute_" $2, $3, $4 / 1e6, $5, $6,
                  $5 ? sprintf("%.1f %%", int(1000 * $6 / $5) / 10) : "-", spellings[$1, $2])
    if (required[$1]) {
        rows[$1] = rows[$1] row "\n"
        modules += $3; kernels += $5; decoded += $6; bytes += $4
    } else {
        other = other row "\n"
        if (!seen[$1]++)
            names[++m] = $1
        others += $5; odecoded += $6
    }
}
END {
    print "## Must decode: `make test` fails otherwise\n"
    print header
    for (i = 1; i <= n; i++)
        printf "%s", rows[order[i]]
    printf "| sum | | %d | %.0f | %d | %d | %s | |\n\n", modules, bytes / 1e6, kernels, decoded, \
           kernels ? sprintf("%.1f %%", int(1000 * decoded / kernels) / 10) : "-"
    print "## For information: other libraries of the toolkit\n"
    print header
    printf "%s", other
    printf "| sum | | | | %d | %d | %s | |\n", others, odecoded, others ? sprintf("%.1f %%", int(1000 * odecoded / others) / 10) : "-"
    print ""
    print "A library whose PTX decodes does not necessarily use it: most of these libraries select machine code"
    print "(SASS) by the device's capability, which this device refuses. Reasons of kernels not decoded:"
    print ""
    for (i = 1; i <= m; i++) {
        k = split(reason_order[names[i]], why_list, SUBSEP)
        for (j = 2; j <= k; j++)
            printf "* %s: %d times \"%s\"\n", names[i], reasons[names[i], why_list[j]], why_list[j]
    }
}
