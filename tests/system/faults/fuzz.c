// SPDX-License-Identifier: MIT
/*
 * fuzz SOCKET|DEVICE [--seeds N] [attack...]: malformed input of every kind, each from a separate
 * client. Required: the client is dead with an error and a text, or, if the input is merely a bad
 * CUDA argument, gets an error and lives; nothing hangs; the next client works.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

const char *fuzz_path;
unsigned fuzz_seeds = 40;
uint64_t fuzz_random;
static unsigned passed, failed;
static int asked_count;
static char **asked;

uint32_t fuzz_rnd(void)
{
    fuzz_random ^= fuzz_random << 13;
    fuzz_random ^= fuzz_random >> 7;
    fuzz_random ^= fuzz_random << 17;
    return (uint32_t)(fuzz_random >> 16);
}

struct vgp_record *fuzz_ping(struct raw *r, uint32_t slot)
{
    struct vgp_args_vgpPing a = {.value = 7};
    return raw_put(r, VGP_vgpPing, &a, sizeof(a), slot);
}

void fuzz_result(const char *name, const char *what)
{
    if (what) {
        printf("fuzz.%s FAIL %s\n", name, what);
        failed++;
    } else {
        passed++;
    }
    fflush(stdout);
}

const char *fuzz_alive(void)
{
    struct raw r;
    if (raw_open(&r, fuzz_path))
        return "the backend takes no new client";
    bool ok = raw_ping(&r);
    raw_close(&r);
    return ok ? NULL : "a new client gets no answer";
}

bool fuzz_wanted(const char *name)
{
    for (int i = 0; i < asked_count; i++)
        if (!strcmp(asked[i], name))
            return true;
    return asked_count == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: fuzz SOCKET|DEVICE [--seeds N] [attack | calls | mutations | double_fetch | "
                        "socket | scribble | wild]...\n");
        return 2;
    }
    fuzz_path = argv[1];
    argc -= 2;
    argv += 2;
    if (argc >= 2 && !strcmp(argv[0], "--seeds")) {
        fuzz_seeds = (unsigned)atoi(argv[1]);
        argc -= 2;
        argv += 2;
    }
    asked_count = argc;
    asked = argv;
    fuzz_result("first", fuzz_alive());
    fuzz_records();
    if (fuzz_wanted("calls"))
        fuzz_calls();
    if (fuzz_wanted("mutations"))
        fuzz_mutations();
    if (fuzz_wanted("double_fetch"))
        fuzz_double_fetch();
    if (strncmp(fuzz_path, "/dev/", 5) && fuzz_wanted("socket"))
        fuzz_socket();
    if (fuzz_wanted("scribble"))
        fuzz_scribble();
    if (fuzz_wanted("wild"))
        fuzz_wild();
    fuzz_result("last", fuzz_alive());
    printf("fuzz: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
