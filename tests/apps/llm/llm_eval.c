/* SPDX-License-Identifier: MIT */
/*
 * Evaluates a prompt and greedy tokens with libllama on one of ggml's backends, and compares the
 * logits with another run's: --save in the first run, --follow in the second. The second run uses the
 * tokens of the first, so that a flipped near-tie does not end the comparison.
 *
 * Exit status: 0 done (and, with --follow, equal within --nmse), 1 not equal, 2 something failed.
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../perf/cpu_time.h"
#include "ggml-backend.h"
#include "llama.h"

#define MAGIC 0x31474f4c4d4c4c00u /* "\0LLMLOG1" */
#define MAX_PROMPT 4096           /* tokens */

/* Header of a saved file, followed by the tokens (prompt, then generated) and the logits of each
 * generated token (`vocab` floats, from which the token was chosen). */
struct saved_header {
    uint64_t magic;
    uint32_t vocab, prompt, generated, reserved;
};

struct options {
    const char *backends, *device, *model, *prompt, *save, *follow;
    int tokens, threads, batch, context, kill_after;
    bool flash, grow, again, cpu_time, quiet, verbose;
    double nmse;
};

struct run {
    struct options o;
    struct llama_model *model;
    struct llama_context *ctx;
    const struct llama_vocab *vocab;
    llama_token prompt[MAX_PROMPT];
    int n_prompt, n_vocab;
    llama_token *tokens; /* generated */
    float *logits;       /* tokens x n_vocab */
    double prompt_s, decode_s, again_s;
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
    va_list ap;

    fflush(stdout);
    va_start(ap, fmt);
    fputs("llm_eval: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

static void help(void)
{
    puts(
        "usage: llm_eval --backends DIR --device cuda|cpu --model FILE --prompt FILE [OPTIONS]\n"
        "\n"
        "Evaluates the prompt, then greedy tokens, on one of ggml's backends.\n"
        "\n"
        "  --backends DIR    where libggml-cuda.so and libggml-cpu-*.so are\n"
        "  --device NAME     cuda: all layers on the first CUDA device; cpu: ggml's CPU backend\n"
        "  --model FILE      a GGUF file\n"
        "  --prompt FILE     a text\n"
        "  --tokens N        how many tokens to generate (default 64)\n"
        "  --batch N         tokens per evaluation of the prompt (default 512)\n"
        "  --context N       context length in tokens (default: what prompt and --tokens need)\n"
        "  --threads N       threads of the CPU backend (default 2)\n"
        "  --no-flash        without flash attention\n"
        "  --grow            first creates contexts until the device's memory is full, and says how many\n"
        "  --again           evaluates the prompt once more at the end: kernels are compiled, memory is in use\n"
        "  --cpu-time        rates by CPU time: of kernels (VGPU_SOFT_PROFILE must be set), of the CPU backend\n"
        "  --kill-after N    ends by SIGKILL while the token after the Nth is being computed\n"
        "  --save FILE       writes tokens and logits\n"
        "  --follow FILE     takes the tokens of a saved run, compares the logits with it\n"
        "  --nmse X          normalised mean squared error that still counts as equal\n"
        "                    (default 5e-4, test-backend-ops's for matrix products)\n"
        "  --quiet           no text of the tokens\n"
        "  --verbose         what the libraries say\n"
        "  --help            this text");
}

static double now(const struct options *o)
{
    struct timespec t;

    if (o->cpu_time)
        return strcmp(o->device, "cuda") ? cpu_time_own() : fmax(cpu_time_kernels(), 0);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Errors and, with --verbose, the rest. user: struct options. */
static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    const struct options *o = user;

    if (o->verbose || level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static ggml_backend_dev_t find_device(const struct options *o)
{
    ggml_backend_dev_t dev;
    size_t free_bytes, total;

    ggml_backend_load_all_from_path(o->backends);
    if (strcmp(o->device, "cpu") == 0) {
        dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        if (!dev)
            die("no CPU backend in %s", o->backends);
        return NULL;
    }
    dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
    if (!dev)
        die("ggml sees no CUDA device (VGPU_TRACE=refusals tells which call was refused)");
    ggml_backend_dev_memory(dev, &free_bytes, &total);
    printf("device: %s, %s, %zu of %zu MiB free\n", ggml_backend_dev_name(dev),
           ggml_backend_dev_description(dev), free_bytes >> 20, total >> 20);
    return dev;
}

static void read_prompt(struct run *r)
{
    static char text[MAX_PROMPT * 8];
    FILE *f = fopen(r->o.prompt, "rb");
    size_t n;

    if (!f)
        die("cannot read %s", r->o.prompt);
    n = fread(text, 1, sizeof(text), f);
    fclose(f);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    r->n_prompt = llama_tokenize(r->vocab, text, (int32_t)n, r->prompt, MAX_PROMPT, true, false);
    if (r->n_prompt <= 0)
        die("%s: not a prompt of 1 to %d tokens", r->o.prompt, MAX_PROMPT);
}

static void load(struct run *r)
{
    ggml_backend_dev_t devices[2] = {NULL, NULL};
    struct llama_model_params mp = llama_model_default_params();
    struct llama_context_params cp = llama_context_default_params();
    size_t logits;

    devices[0] = find_device(&r->o);
    mp.devices = devices;
    mp.n_gpu_layers = devices[0] ? 999 : 0;
    r->model = llama_model_load_from_file(r->o.model, mp);
    if (!r->model)
        die("cannot load %s", r->o.model);
    r->vocab = llama_model_get_vocab(r->model);
    r->n_vocab = llama_vocab_n_tokens(r->vocab);
    read_prompt(r);
    cp.n_ctx = (uint32_t)(r->o.context ? r->o.context : r->n_prompt + r->o.tokens);
    cp.n_batch = cp.n_ubatch = (uint32_t)r->o.batch;
    cp.n_threads = cp.n_threads_batch = r->o.threads;
    cp.flash_attn_type = r->o.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    r->ctx = llama_init_from_model(r->model, cp);
    if (!r->ctx)
        die("cannot create a context");
    logits = (size_t)r->o.tokens * (size_t)r->n_vocab;
    r->tokens = calloc((size_t)r->o.tokens, sizeof(*r->tokens));
    r->logits = calloc(logits, sizeof(*r->logits));
    if (!r->tokens || !r->logits)
        die("no memory for %zu logits", logits);
}

/* Creates contexts until the device has no memory for another, and frees them: this run's own context
 * must work as before. */
static void grow(struct run *r)
{
    struct llama_context *more[256];
    struct llama_context_params cp = llama_context_default_params();
    int n = 0;

    cp.n_ctx = 8192;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    while (n < 256 && (more[n] = llama_init_from_model(r->model, cp)) != NULL)
        n++;
    printf("grow: %d further contexts of %u tokens, then %s\n", n, cp.n_ctx,
           n < 256 ? "the device's memory was full" : "still no end");
    for (int i = 0; i < n; i++)
        llama_free(more[i]);
    if (n == 256)
        die("the device's memory has no end");
}

static int greatest(const float *v, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++) {
        if (v[i] > v[best])
            best = i;
    }
    return best;
}

static void say_token(const struct run *r, llama_token token)
{
    char piece[256];
    int n = llama_token_to_piece(r->vocab, token, piece, sizeof(piece), 0, true);

    if (!r->o.quiet && n > 0) {
        fwrite(piece, 1, (size_t)n, stdout);
        fflush(stdout);
    }
}

/* Seconds that the prompt takes. */
static double evaluate_prompt(struct run *r)
{
    double start = now(&r->o);

    for (int at = 0; at < r->n_prompt; at += r->o.batch) {
        int n = r->n_prompt - at < r->o.batch ? r->n_prompt - at : r->o.batch;

        if (llama_decode(r->ctx, llama_batch_get_one(r->prompt + at, n)) != 0)
            die("cannot evaluate the prompt");
    }
    llama_synchronize(r->ctx);
    return now(&r->o) - start;
}

/* follow: the tokens to take instead of the greatest logit's, or NULL. */
static void generate(struct run *r, const llama_token *follow)
{
    double start;

    r->prompt_s = evaluate_prompt(r);
    start = now(&r->o);
    for (int i = 0; i < r->o.tokens; i++) {
        float *row = r->logits + (size_t)i * (size_t)r->n_vocab;

        memcpy(row, llama_get_logits_ith(r->ctx, -1), (size_t)r->n_vocab * sizeof(*row));
        for (int k = 0; k < r->n_vocab; k++) {
            if (!isfinite(row[k]))
                die("logit %d of generated token %d is not a number", k, i);
        }
        r->tokens[i] = follow ? follow[i] : greatest(row, r->n_vocab);
        say_token(r, r->tokens[i]);
        if (i + 1 < r->o.tokens && llama_decode(r->ctx, llama_batch_get_one(&r->tokens[i], 1)) != 0)
            die("cannot evaluate generated token %d", i);
        if (i + 1 == r->o.kill_after)
            raise(SIGKILL);
    }
    r->decode_s = now(&r->o) - start;
    if (!r->o.quiet)
        putchar('\n');
}

static void save(const struct run *r)
{
    struct saved_header h = {.magic = MAGIC,
                             .vocab = (uint32_t)r->n_vocab,
                             .prompt = (uint32_t)r->n_prompt,
                             .generated = (uint32_t)r->o.tokens};
    size_t logits = (size_t)r->o.tokens * (size_t)r->n_vocab;
    FILE *f = fopen(r->o.save, "wb");

    if (!f || fwrite(&h, sizeof(h), 1, f) != 1 ||
        fwrite(r->prompt, sizeof(llama_token), h.prompt, f) != h.prompt ||
        fwrite(r->tokens, sizeof(llama_token), h.generated, f) != h.generated ||
        fwrite(r->logits, sizeof(float), logits, f) != logits || fclose(f) != 0)
        die("cannot write %s", r->o.save);
}

/* Reads a saved run of the same prompt; its tokens and logits. */
static void read_saved(struct run *r, llama_token **tokens, float **logits)
{
    static llama_token prompt[MAX_PROMPT];
    struct saved_header h;
    FILE *f = fopen(r->o.follow, "rb");
    size_t n;

    if (!f || fread(&h, sizeof(h), 1, f) != 1 || h.magic != MAGIC)
        die("%s: not a file that --save wrote", r->o.follow);
    if (h.vocab != (uint32_t)r->n_vocab || h.prompt != (uint32_t)r->n_prompt ||
        fread(prompt, sizeof(llama_token), h.prompt, f) != h.prompt ||
        memcmp(prompt, r->prompt, h.prompt * sizeof(llama_token)) != 0)
        die("%s: of another model or prompt", r->o.follow);
    if (h.generated < (uint32_t)r->o.tokens)
        die("%s has %u tokens only", r->o.follow, h.generated);
    n = (size_t)h.generated * h.vocab;
    *tokens = calloc(h.generated, sizeof(llama_token));
    *logits = calloc(n, sizeof(float));
    if (!*tokens || !*logits || fread(*tokens, sizeof(llama_token), h.generated, f) != h.generated ||
        fread(*logits, sizeof(float), n, f) != n)
        die("%s is cut short", r->o.follow);
    fclose(f);
    for (uint32_t i = 0; i < h.generated; i++) {
        if ((*tokens)[i] < 0 || (uint32_t)(*tokens)[i] >= h.vocab)
            die("%s holds a token that is none", r->o.follow);
    }
}

/* Distance of the greatest logit from the second greatest. */
static double margin(const float *v, int n)
{
    int best = greatest(v, n);
    double next = -INFINITY;

    for (int i = 0; i < n; i++) {
        if (i != best && (double)v[i] > next)
            next = (double)v[i];
    }
    return (double)v[best] - next;
}

/* Prints the distance of this run's logits from the saved run's; true: within the limit. */
static bool compare(const struct run *r, const float *other)
{
    double square = 0, norm = 0, largest = 0, worst = 0, closest = INFINITY;
    int first = -1;

    for (int i = 0; i < r->o.tokens; i++) {
        const float *a = r->logits + (size_t)i * (size_t)r->n_vocab;
        const float *b = other + (size_t)i * (size_t)r->n_vocab;
        double s = 0, m = 0;

        for (int k = 0; k < r->n_vocab; k++) {
            double d = (double)a[k] - (double)b[k];

            s += d * d;
            m += (double)b[k] * (double)b[k];
            largest = fabs(d) > largest ? fabs(d) : largest;
        }
        closest = fmin(closest, margin(b, r->n_vocab));
        worst = s / m > worst ? s / m : worst;
        square += s;
        norm += m;
        if (first < 0 && greatest(a, r->n_vocab) != greatest(b, r->n_vocab))
            first = i;
    }
    printf("logits: %d x %d compared, largest difference %.3g, nmse %.3g (worst token %.3g, limit %.3g)\n",
           r->o.tokens, r->n_vocab, largest, square / norm, worst, r->o.nmse);
    if (first < 0) {
        printf("tokens: all %d are the same (the closest choice was by %.3g)\n", r->o.tokens, closest);
    } else {
        const float *a = r->logits + (size_t)first * (size_t)r->n_vocab;
        const float *b = other + (size_t)first * (size_t)r->n_vocab;
        int ta = greatest(a, r->n_vocab), tb = greatest(b, r->n_vocab);

        printf("tokens: number %d differs: %d here (logits %.4f here, %.4f saved), %d saved "
               "(%.4f here, %.4f saved)\n",
               first, ta, (double)a[ta], (double)b[ta], tb, (double)a[tb], (double)b[tb]);
    }
    return square <= r->o.nmse * norm;
}

static int number(const char *option, const char *text, long low, long high)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end || v < low || v > high)
        die("--%s: '%s' is not a number from %ld to %ld", option, text, low, high);
    return (int)v;
}

static void parse_options(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"backends", 1, NULL, 'b'}, {"device", 1, NULL, 'd'},     {"model", 1, NULL, 'm'},
        {"prompt", 1, NULL, 'p'},   {"tokens", 1, NULL, 'n'},     {"batch", 1, NULL, 'u'},
        {"context", 1, NULL, 'c'},  {"threads", 1, NULL, 't'},    {"no-flash", 0, NULL, 'F'},
        {"grow", 0, NULL, 'g'},     {"kill-after", 1, NULL, 'k'}, {"save", 1, NULL, 's'},
        {"follow", 1, NULL, 'f'},   {"nmse", 1, NULL, 'e'},       {"quiet", 0, NULL, 'q'},
        {"again", 0, NULL, 'a'},    {"cpu-time", 0, NULL, 'C'},   {"verbose", 0, NULL, 'v'},
        {"help", 0, NULL, 'h'},     {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'b':
            o->backends = optarg;
            break;
        case 'd':
            o->device = optarg;
            break;
        case 'm':
            o->model = optarg;
            break;
        case 'p':
            o->prompt = optarg;
            break;
        case 'n':
            o->tokens = number("tokens", optarg, 1, 100000);
            break;
        case 'u':
            o->batch = number("batch", optarg, 1, MAX_PROMPT);
            break;
        case 'c':
            o->context = number("context", optarg, 64, 1 << 20);
            break;
        case 't':
            o->threads = number("threads", optarg, 1, 256);
            break;
        case 'F':
            o->flash = false;
            break;
        case 'g':
            o->grow = true;
            break;
        case 'a':
            o->again = true;
            break;
        case 'C':
            o->cpu_time = true;
            break;
        case 'k':
            o->kill_after = number("kill-after", optarg, 1, 100000);
            break;
        case 's':
            o->save = optarg;
            break;
        case 'f':
            o->follow = optarg;
            break;
        case 'e':
            o->nmse = strtod(optarg, NULL);
            break;
        case 'q':
            o->quiet = true;
            break;
        case 'v':
            o->verbose = true;
            break;
        case 'h':
            help();
            exit(0);
        default:
            fputs("llm_eval: see --help\n", stderr);
            exit(2);
        }
    }
    if (optind != argc || !o->backends || !o->device || !o->model || !o->prompt)
        die("--backends, --device, --model and --prompt are needed; see --help");
    if (strcmp(o->device, "cuda") != 0 && strcmp(o->device, "cpu") != 0)
        die("--device: '%s' is not one of cuda, cpu", o->device);
    if (o->cpu_time && strcmp(o->device, "cuda") == 0 && !getenv("VGPU_SOFT_PROFILE"))
        die("--cpu-time: VGPU_SOFT_PROFILE is not set");
    if (!(o->nmse > 0))
        die("--nmse: not a number above 0");
}

int main(int argc, char **argv)
{
    static struct run r = {.o = {.tokens = 64, .threads = 2, .batch = 512, .flash = true, .nmse = 5e-4}};
    llama_token *tokens = NULL;
    float *logits = NULL;
    bool equal = true;

    parse_options(&r.o, argc, argv);
    llama_log_set(on_log, &r.o);
    llama_backend_init();
    load(&r);
    if (r.o.follow)
        read_saved(&r, &tokens, &logits);
    if (r.o.grow)
        grow(&r);
    generate(&r, tokens);
    printf("%s: prompt %d tokens, %.1f tokens/s; decoding %d tokens, %.2f tokens/s\n", r.o.device, r.n_prompt,
           r.n_prompt / r.prompt_s, r.o.tokens, (r.o.tokens - 1) / r.decode_s);
    if (r.o.again) {
        llama_memory_clear(llama_get_memory(r.ctx), true);
        r.again_s = evaluate_prompt(&r);
        printf("the prompt again: %.1f tokens/s\n", r.n_prompt / r.again_s);
    }
    if (r.o.save)
        save(&r);
    if (r.o.follow)
        equal = compare(&r, logits);
    llama_free(r.ctx);
    llama_model_free(r.model);
    llama_backend_free();
    free(tokens);
    free(logits);
    free(r.tokens);
    free(r.logits);
    return equal ? 0 : 1;
}
