/* SPDX-License-Identifier: MIT */
/* What the test's NVML answers to functions with one number: each another one. */
#ifndef TESTNVML_H
#define TESTNVML_H

/* Of NVML's function, and by which number of the protocol a guest asks for it. */
#define TESTNVML_ONES(X) \
    X(PowerManagementLimit, POWER_LIMIT) \
    X(PowerManagementDefaultLimit, POWER_DEFAULT) \
    X(EnforcedPowerLimit, POWER_ENFORCED) \
    X(Brand, BRAND) \
    X(PerformanceState, PSTATE) \
    X(ComputeMode, COMPUTE_MODE) \
    X(PersistenceMode, PERSISTENCE) \
    X(DisplayActive, DISPLAY_ACTIVE) \
    X(DisplayMode, DISPLAY_MODE) \
    X(Architecture, ARCHITECTURE) \
    X(NumGpuCores, GPU_CORES) \
    X(MemoryBusWidth, BUS_WIDTH) \
    X(CurrPcieLinkGeneration, PCIE_GEN) \
    X(CurrPcieLinkWidth, PCIE_WIDTH) \
    X(MaxPcieLinkGeneration, PCIE_MAX_GEN) \
    X(MaxPcieLinkWidth, PCIE_MAX_WIDTH)
#define TESTNVML_PAIRS(X) \
    X(PowerManagementLimitConstraints, POWER_LIMITS) \
    X(EccMode, ECC_MODE) \
    X(MigMode, MIG_MODE)

#define TESTNVML_NUMBER(name, what) TESTNVML_##name,
enum testnvml_values {
    TESTNVML_FIRST = 5000,
    TESTNVML_ONES(TESTNVML_NUMBER) TESTNVML_PAIRS(TESTNVML_NUMBER)
};
#undef TESTNVML_NUMBER

#endif
