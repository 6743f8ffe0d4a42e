/* SPDX-License-Identifier: MIT */
/* Built as libcublas.so.0 for vcu_caller_test: queries the driver from inside a library of that
 * name. */
int ask_attribute(int (*fn)(int *, int, int), int *pi, int attrib, int dev);
int ask_capability(int (*fn)(int *, int *, int), int *major, int *minor, int dev);

/* The use of the result keeps the compiler from emitting a tail call. */
static volatile int last;

int ask_attribute(int (*fn)(int *, int, int), int *pi, int attrib, int dev)
{
    last = fn(pi, attrib, dev);
    return last;
}

int ask_capability(int (*fn)(int *, int *, int), int *major, int *minor, int dev)
{
    last = fn(major, minor, dev);
    return last;
}
