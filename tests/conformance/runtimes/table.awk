# SPDX-License-Identifier: MIT
# docs/results/runtimes.md from runtimes.txt and the cells of run.sh (series, where, part, what it came to); date is given.
FILENAME == ARGV[1] {
    if ($0 ~ /^#/ || NF == 0)
        next
    split($0, word, / +/)
    version = word[3]
    sub(/.*==/, "", version)
    if (word[2] == "cudart")
        order[++n] = word[1]
    package[word[1], word[2]] = version
    next
}
$2 == "ptx" { ptx[$1] = $4; next }
$1 == "-" { next }
{
    cell[$1, $2, $3] = $4
    if ($2 == "guest") {
        guests[$1]++
        if ($4 != "right")
            guest_why[$1] = $3 ": " $4
    }
    total++
    right += $4 == "right"
}
END {
    parts = split("start-up query kernel streams graph nvrtc cublas", part, " ")
    print "# Every CUDA runtime"
    print ""
    print "Written by `make -C tests/conformance/runtimes table` on " date "."
    print "Unmodified libcudart, NVRTC and cuBLAS of each series, from the Python package index, on the"
    print "software GPU. `tests/conformance/runtimes/runtimes.txt` has versions and SHA-256. There is no series"
    print "12.7. The runtime loads PTX that NVRTC of the same series compiled for compute capability 8.0."
    print ""
    print "* *start-up*: initialisation of the runtime, versions"
    print "* *query*: device count, attributes, properties"
    print "* *kernel*: the program's own image, a launch, a variable"
    print "* *streams*: two streams, events, pinned memory"
    print "* *graph*: a captured graph, launched three times"
    print "* *NVRTC*: a kernel compiled, loaded by the driver API, and launched"
    print "* *sgemm*: `cublasSgemm`, compared with the CPU"
    print "* *guest*: all of these in a virtual machine, for the selected series; the other columns are over"
    print "  the socket"
    print ""
    print "*right*: all results are correct; otherwise the first step that failed, with its error."
    print ""
    print "| series | libcudart | NVRTC | PTX | cuBLAS | start-up | query | kernel | streams | graph | NVRTC | sgemm | guest |"
    print "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= n; i++) {
        s = order[i]
        line = "| " s " | " package[s, "cudart"] " | " package[s, "nvrtc"] " | " ptx[s] " | " package[s, "cublas"]
        for (k = 1; k <= parts; k++)
            line = line " | " ((s, "socket", part[k]) in cell ? cell[s, "socket", part[k]] : "not run")
        print line " | " (guests[s] == 0 ? "" : s in guest_why ? guest_why[s] : guests[s] == parts ? "right" : guests[s] " of " parts) " |"
    }
    print ""
    print right " of " total " cells are right. Each runtime also passes with eager loading"
    print "(`CUDA_MODULE_LOADING=EAGER`) and with the oldest driver version of its major version"
    print "(`VGPU_DRIVER_VERSION`). `make test` runs the runtimes in these three ways, and NVRTC of four"
    print "series; `make all-clients` runs all."
}
