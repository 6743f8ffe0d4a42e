# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: what NVML says of a GPU and of processes is shown under its own name, in its unit. No two numbers of the
# NVML here are the same; the second process is one of which it does not know how much it has.
mkdir "$work/values"
cat > "$work/values/smi_nvml.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include "nvml_abi.h"
#define ONE(name, v) int name(void *d, unsigned *x) { (void)d; *x = (v); return 0; }
#define KIND(name, v) int name(void *d, unsigned kind, unsigned *x) { (void)d; *x = (v) + kind; return 0; }
#define TWO(name, v, w) int name(void *d, unsigned *x, unsigned *y) { (void)d; *x = (v); *y = (w); return 0; }
#define TEXT(name, v) int name(void *d, char *x, unsigned n) { (void)d; (void)n; strcpy(x, v); return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *x, unsigned n) { (void)n; strcpy(x, "580.1"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *x) { *x = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { static int one; (void)i; *d = &one; return 0; }
ONE(nvmlDeviceGetIndex, 0) TEXT(nvmlDeviceGetName, "a name") TEXT(nvmlDeviceGetUUID, "GPU-1") TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios") ONE(nvmlDeviceGetPerformanceState, 3) KIND(nvmlDeviceGetTemperature, 61)
ONE(nvmlDeviceGetFanSpeed, 62) ONE(nvmlDeviceGetPowerUsage, 63045) ONE(nvmlDeviceGetPowerManagementLimit, 64009)
ONE(nvmlDeviceGetEnforcedPowerLimit, 65990) ONE(nvmlDeviceGetPowerManagementDefaultLimit, 66100)
TWO(nvmlDeviceGetPowerManagementLimitConstraints, 67010, 68999) KIND(nvmlDeviceGetClockInfo, 1000) KIND(nvmlDeviceGetMaxClockInfo, 2000)
ONE(nvmlDeviceGetComputeMode, 3) ONE(nvmlDeviceGetPersistenceMode, 1) TWO(nvmlDeviceGetMigMode, 0, 1) TWO(nvmlDeviceGetEccMode, 1, 0)
ONE(nvmlDeviceGetCurrPcieLinkGeneration, 4) ONE(nvmlDeviceGetMaxPcieLinkGeneration, 5) ONE(nvmlDeviceGetCurrPcieLinkWidth, 8)
ONE(nvmlDeviceGetMaxPcieLinkWidth, 16) ONE(nvmlDeviceGetDisplayActive, 1) ONE(nvmlDeviceGetDisplayMode, 0) TWO(nvmlDeviceGetCudaComputeCapability, 9, 1)
int nvmlDeviceGetUtilizationRates(void *d, nvmlUtilization_t *u) { (void)d; u->gpu = 71; u->memory = 72; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *x) { (void)d; *x = 0x100000004ull; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, nvmlMemory_v2_t *m)
{
    (void)d; m->total = 8000ull << 20; m->reserved = 100ull << 20; m->used = 900ull << 20; m->free = 7000ull << 20; return 0;
}
int nvmlDeviceGetPciInfo_v3(void *d, nvmlPciInfo_t *p)
{
    (void)d; memset(p, 0, sizeof(*p)); strcpy(p->bus_id, "00000001:02:03.0"); p->domain = 1; p->bus = 2; p->device = 3;
    p->ids = 0x233010deu; p->subsystem = 0x16c110deu; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, nvmlProcessInfo_v2_t *l)
{
    (void)d; *n = 2; memset(l, 0, 2 * sizeof(*l)); l[0].pid = 11; l[0].used = 12ull << 20; l[1].pid = 13; l[1].used = ~0ull; return 0;
}
int nvmlSystemGetProcessName(unsigned pid, char *x, unsigned n)
{
    (void)n; strcpy(x, pid != 11 ? "second" : getenv("NAMED") ? getenv("NAMED") : "first"); return 0;
}
END
# Each spelling of --gpu is taken once: the command that runs below `vgpu run` has it no more. Without an end the
# backend would be started again and again: the third start fails.
printf '#!/bin/bash\necho x >> "%s"\n[ "$(wc -l < "%s")" -lt 3 ] && exec "%s" "$@"\nexit 3\n' \
    "$work/starts" "$work/starts" "$work/backend" > "$work/counted"
chmod +x "$work/counted"
for gpu in "--gpu soft" "--gpu=soft" "--gp soft" "--g=soft"; do
    rm -f "$work/starts"
    VGPU_BACKEND=$work/counted timeout 60 "$vgpu" smi $gpu -L > /dev/null 2>&1 < /dev/null
    same "smi $gpu: starts a backend once" "12 1" "$? $(wc -l < "$work/starts")"
done
# value WANT OPTIONS...
value()
{
    same "smi, by its NVML: $2" "$1" "$(VGPU_NVML_DIR=$work/values timeout 60 "$vgpu" smi "${@:2}" 2>&1 < /dev/null)"
}
if cc -shared -fPIC -I"$here/../libnvidia-ml" -o "$work/values/libnvidia-ml.so.1" "$work/values/smi_nvml.c" 2> /dev/null; then
    while read -r name want; do
        value "$want" "--query-gpu=$name" --format=csv,noheader
    done <<'END'
index 0
count 1
name a name
uuid GPU-1
serial serial
driver_version 580.1
vbios_version vbios
pci.bus_id 00000001:02:03.0
pci.domain 0x0001
pci.bus 0x02
pci.device 0x03
pci.device_id 0x233010DE
pci.sub_device_id 0x16C110DE
pstate P3
compute_cap 9.1
compute_mode Exclusive_Process
memory.total 8000 MiB
memory.reserved 100 MiB
memory.used 900 MiB
memory.free 7000 MiB
utilization.gpu 71 %
utilization.memory 72 %
temperature.gpu 61
fan.speed 62 %
power.draw 63.04 W
power.limit 64.00 W
enforced.power.limit 65.99 W
power.default_limit 66.10 W
power.min_limit 67.01 W
power.max_limit 68.99 W
clocks.gr 1000 MHz
clocks.sm 1001 MHz
clocks.mem 1002 MHz
clocks.video 1003 MHz
clocks.max.gr 2000 MHz
clocks.max.sm 2001 MHz
clocks.max.mem 2002 MHz
persistence_mode Enabled
mig.mode.current Disabled
mig.mode.pending Enabled
ecc.mode.current Enabled
ecc.mode.pending Disabled
pcie.link.gen.current 4
pcie.link.gen.max 5
pcie.link.width.current 8
pcie.link.width.max 16
display_active Enabled
display_mode Disabled
clocks_event_reasons.active 0x0000000100000004
END
    value $'11, first, 12 MiB\n13, second, [N/A]' --query-compute-apps=pid,process_name,used_memory --format=csv,noheader
    value $'12, 11\n[N/A], 13' --query-compute-apps=used_gpu_memory,pid --format=csv,noheader,nounits
    # A name that does not fit its column loses its beginning, the folders.
    for n in 52 53 54 80; do
        name=$(printf '/%0*d/program' $((n - 9)) 7) && want=$name
        [ "$n" -le 53 ] || want=...${name: -50}
        same "smi: a process's name of $n characters" "$want 91" "$(NAMED=$name VGPU_NVML_DIR=$work/values timeout 60 "$vgpu" smi |
            awk '$3 == 11 { print $5, length }')"
    done
else
    skipped=$((skipped + 1))
    echo "not run: smi, by its NVML: no compiler"
fi
