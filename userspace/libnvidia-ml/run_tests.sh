#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs sample_test, device_test and connect_test; nvml_test and room_test against a backend with the software GPU; looks at what the library exports.
#   run_tests.sh BUILD_DIR TOP_BUILD_DIR
out=$1
vgpu=$2/userspace/vgpu/vgpu
passed=0
failed=0
skipped=0
log=$out/nvml_test.log
missing=
for file in userspace/vgpu/vgpu userspace/libcuda/libcuda.so.1 host/backend/vgpu-backend \
    host/softgpu/libcuda-soft.so.1; do
    [ -e "$2/$file" ] || missing="$missing $file"
done

odd=$(nm -D --defined-only "$out/libnvidia-ml.so.1" | awk '{ print $3 }' | grep -vE '^nvml[A-Z]')
if [ -z "$odd" ] && readelf -d "$out/libnvidia-ml.so.1" | grep -q 'SONAME.*\[libnvidia-ml.so.1\]'; then
    passed=$((passed + 1))
    echo "ok   exports: $(nm -D --defined-only "$out/libnvidia-ml.so.1" | wc -l) names"
else
    failed=$((failed + 1))
    echo "FAIL: exports: $odd"
fi
# run WAY COMMAND...: the test once, each of its lines counted
run() {
    way=$1
    shift
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 120 "$@" > "$log" 2>&1
    rc=$?
    sed -n "s/^ok [0-9]* - /ok   $way: /p; s/^not ok [0-9]* - /FAIL: $way: /p" "$log"
    f=$(grep -c '^not ok ' "$log")
    passed=$((passed + $(grep -c '^ok ' "$log")))
    if [ $rc -eq 0 ] && ! grep -q '^\(not \)\?ok ' "$log"; then
        f=1
        echo "FAIL: $way: ran no test"
    fi
    if [ $rc -ne 0 ]; then
        [ "$f" -eq 0 ] && f=1 && echo "FAIL: $way: ended with status $rc"
        grep -v '^ok ' "$log" | tail -20
    fi
    failed=$((failed + f))
}
run sample "$out/sample_test"
run device "$out/device_test"
run connect "$out/connect_test"
if [ -n "$missing" ]; then
    echo "not run: nvml_test: not built:$missing"
    skipped=1
else
    run socket "$vgpu" run --gpu soft "$out/nvml_test"
    run room "$vgpu" run --gpu soft "$out/room_test"
    # Every call traced: the arguments of failed calls are not looked at.
    run traced env VGPU_TRACE=$out/nvml_test.trace "$vgpu" run --gpu soft "$out/nvml_test"
fi
echo "libnvidia-ml: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
