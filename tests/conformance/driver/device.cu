/* SPDX-License-Identifier: MIT */
/* A function for the linker, compiled into an object of the host (-dc), and that into an archive. */
extern "C" __device__ int other(int x)
{
    return 3 * x + 1;
}
