/* SPDX-License-Identifier: MIT */
/* A foreign libcuda.so.1, like a toolkit's stub or a driver's leftover: it finds no device. */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int length, int device);

int cuInit(unsigned flags)
{
    (void)flags;
    return 100;
}

int cuDeviceGetCount(int *count)
{
    (void)count;
    return 3;
}

int cuDeviceGetName(char *name, int length, int device)
{
    (void)name;
    (void)length;
    (void)device;
    return 3;
}
