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
    print "Written by `make -C tests/conformance/runtimes table`, " date ": NVIDIA's libcudart, NVRTC and cuBLAS of each series from the"
    print "Python package index, unmodified, on the software GPU; the versions and their SHA-256 are in `tests/conformance/runtimes/runtimes.txt`."
    print "There is no series 12.7. The image that the runtime loads is the PTX that NVRTC of the same series makes for compute capability 8.0."
    print ""
    print "*start-up*: the runtime initialises, versions; *query*: count, attributes, properties; *kernel*: the program's own image, a launch,"
    print "a variable; *streams*: two streams, events, pinned memory; *graph*: captured, launched three times; *NVRTC*: compiles, loaded by the driver API,"
    print "launched; *sgemm*: `cublasSgemm`, compared with the processor. Over the socket; *guest*: all of it in a virtual machine, for the series that say so."
    print "*right*: all results are right; else the first step that failed, with its error."
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
    print right " of " total " cells are right. Each runtime also passes with eager loading (`CUDA_MODULE_LOADING=EAGER`) and with the oldest driver version of"
    print "its major version (`VGPU_DRIVER_VERSION`). `make test` runs the runtimes in these three ways and NVRTC of four series; `make all-clients` runs all."
}
