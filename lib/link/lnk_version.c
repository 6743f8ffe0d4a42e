/* SPDX-License-Identifier: MIT */
#include "version.h"

#include <stdlib.h>

#include "vgp_newer.h"

int lnk_driver_version_wanted(void)
{
    const char *text = getenv("VGPU_DRIVER_VERSION");
    char *end;
    long value;

    if (text == NULL || *text == '\0')
        return 0;
    value = strtol(text, &end, 10);
    return *end == '\0' && value >= 1000 && value <= 99999 ? (int)value : 0;
}

int lnk_driver_version(int host)
{
    int wanted = lnk_driver_version_wanted();

    if (wanted != 0)
        return wanted;
    return host > 0 && host < VGP_API_VERSION ? host : VGP_API_VERSION;
}
