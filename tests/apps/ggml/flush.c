/* SPDX-License-Identifier: MIT */
/*
 * Part of both preloaded libraries: llama.cpp's logger prints in a thread of its own and is left behind
 * at exit, with lines that were not printed yet. Printed here; its two functions are C++.
 */
struct common_log;
struct common_log *common_log_main(void) __asm__("_Z15common_log_mainv");
void common_log_flush(struct common_log *log) __asm__("_Z16common_log_flushP10common_log");
#pragma weak common_log_main
#pragma weak common_log_flush

__attribute__((destructor)) static void print_the_rest(void)
{
    if (common_log_main && common_log_flush)
        common_log_flush(common_log_main());
}
