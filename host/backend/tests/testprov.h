/* SPDX-License-Identifier: MIT */
#ifndef TESTPROV_H
#define TESTPROV_H

#define VALUE_BUSY 0xb1
#define VALUE_CRASH 0xb2
#define VALUE_SYSCALL 0xb3
#define VALUE_FAULT 0xb4
#define VALUE_PRINT 0xb5

/* Every byte of a handle that only drivers may see. */
#define IPC_MARK 0xa7

#endif
