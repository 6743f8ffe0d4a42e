// SPDX-License-Identifier: MIT
/* Settings of GPU core dumps: sizes, defaults, scope (process or context). */
#include "conform.h"

#include <unistd.h>

CASE(coredump_settings, CF_CTX | CF_ALONE)
{
    char name[1024], long_name[2000], want[400], host[256] = "";
    size_t n = 0;
    unsigned flags = 77;
    bool on = true;

    gethostname(host, sizeof(host) - 1);
    OK("size_bool", cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, NULL, &n));
    cf_u64("bool", n, 1);
    OK("size_flags", cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, NULL, &n));
    cf_u64("flags_bytes", n, 4);
    OK("size_file", cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, NULL, &n));
    cf_u64("file_bytes", n, 1024);
    RC("size_null", cuCoredumpGetAttribute(CU_COREDUMP_FILE, name, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("unknown", cuCoredumpGetAttribute((CUcoredumpSettings)99, NULL, &n), CUDA_ERROR_INVALID_VALUE);
    RC("zero", cuCoredumpGetAttribute((CUcoredumpSettings)0, NULL, &n), CUDA_ERROR_INVALID_VALUE);
    RC("unknown_set", cuCoredumpSetAttribute((CUcoredumpSettings)99, NULL, &n), CUDA_ERROR_INVALID_VALUE);

    n = 1;
    OK("enabled", cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &n));
    cf_true("disabled", !on);
    OK("host", cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &on, &n));
    cf_true("host_value", on);
    n = 4;
    OK("flags", cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &n));
    cf_u64("flags_value", flags, 0);
    n = 2;
    RC("flags_short", cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &n),
       CUDA_ERROR_INVALID_VALUE);
    n = sizeof(name);
    OK("file", cuCoredumpGetAttribute(CU_COREDUMP_FILE, name, &n));
    snprintf(want, sizeof(want), "core.cuda.%s.%d", host, (int)getpid());
    if (!cf_real()) /* documented; a physical GPU's driver has a different name */
        cf_true("file_default", !strcmp(name, want));
    n = sizeof(name);
    OK("pipe", cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, name, &n));
    snprintf(want, sizeof(want), "corepipe.cuda.%s.%d", host, (int)getpid());
    if (!cf_real())
        cf_true("pipe_default", !strcmp(name, want));
    n = 4;
    OK("file_short", cuCoredumpGetAttribute(CU_COREDUMP_FILE, name, &n)); /* cut */

    /* The flags and their two older forms. */
    n = 1;
    on = true;
    OK("light", cuCoredumpSetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &on, &n));
    n = 4;
    OK("light_flags", cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &n));
    cf_u64("light_flags_value", flags, CU_COREDUMP_LIGHTWEIGHT_FLAGS);
    OK("inherited", cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &n));
    cf_u64("inherited_value", flags, 0); /* the context was created before */
    flags = CU_COREDUMP_SKIP_ABORT;
    OK("own", cuCoredumpSetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &n));
    n = 1;
    OK("own_host", cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &on, &n));
    cf_true("own_host_value", !on);
    OK("own_light", cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &n));
    cf_true("own_light_value", !on);
    OK("global_host", cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &n));
    cf_true("global_host_value", on);
    n = 4;
    flags = 0x8000;
    OK("flags_unknown", cuCoredumpSetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &n));

    n = 8;
    OK("file_set", cuCoredumpSetAttribute(CU_COREDUMP_FILE, "my.core", &n));
    n = sizeof(name);
    OK("file_get", cuCoredumpGetAttribute(CU_COREDUMP_FILE, name, &n));
    cf_str("file_value", name, "my.core");
    n = sizeof(name);
    OK("file_global", cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &n));
    cf_true("file_global_value", strcmp(name, "my.core") != 0);
    memset(long_name, 'x', sizeof(long_name));
    n = sizeof(long_name);
    RC("file_long", cuCoredumpSetAttribute(CU_COREDUMP_FILE, long_name, &n), CUDA_ERROR_INVALID_VALUE);
    n = 2;
    RC("pipe_set", cuCoredumpSetAttribute(CU_COREDUMP_PIPE, "p", &n), CUDA_ERROR_INVALID_VALUE);
    OK("pipe_global", cuCoredumpSetAttributeGlobal(CU_COREDUMP_PIPE, "p", &n));
    n = sizeof(name);
    RC("pipe_get", cuCoredumpGetAttribute(CU_COREDUMP_PIPE, name, &n), CUDA_ERROR_INVALID_VALUE);
    OK("pipe_get_global", cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, name, &n));
    cf_str("pipe_value", name, "p");

    n = 1;
    on = false;
    OK("disable", cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &n));
    on = true;
    if (!cf_real()) /* a physical GPU's driver writes dumps */
        RC("enable", cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &n),
           CUDA_ERROR_NOT_SUPPORTED);
}
