/* SPDX-License-Identifier: MIT */
/*
 * Writes a small language model in the GGUF format: llama architecture, the tokenizer of one of
 * llama.cpp's vocabulary files, weights from a seeded generator. No weights are downloaded.
 *
 * To make the output depend on the layers, the output row of a token is noise plus the embeddings of the
 * tokens that precede it in a text. So the model proposes words that follow each other there, and the
 * layers (attention and feed-forward, random but of sane size) choose between them. A wrong result
 * anywhere in the layers changes logits, and soon words.
 */
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"
#include "gguf.h"

#define SPECIAL_TOKENS 259  /* SentencePiece: unknown, begin, end, then one token per byte */
#define MAX_PIECE 48        /* no token of the vocabulary is longer (in bytes) */
#define ROW_MAX 8192        /* elements of a row, a bound for --embd and --ff */
#define BYTE_TOKENS 3       /* token of byte 0, after unknown, begin and end */
#define OUTPUT_NOISE 0.02f  /* per element: about 0.3 per logit at 256 elements */
#define OUTPUT_FOLLOW 0.07f /* about 18 for a word that follows another at 256 elements */
#define OUTPUT_AVOID 0.10f  /* repulsion from tokens already generated */
#define MEMORY 4.0f         /* see add_memory() */

struct size {
    const char *name;
    int embd, ff, layers, heads, kv_heads, tokens;
};

/* The file sizes in --help are those of q8_0. */
static const struct size sizes[] = {
    {"tiny", 256, 512, 2, 4, 2, 2048},
    {"small", 256, 768, 4, 4, 2, 8192},
    {"medium", 512, 1536, 6, 8, 4, 8192},
    {"large", 768, 2048, 4, 12, 4, 16384},
};

struct model {
    struct size s;
    int context;
    enum ggml_type type;
    uint64_t seed;
    const char *vocab, *text, *out;
    struct gguf_context *meta;
    struct ggml_context *tensors;
    const char **pieces; /* of the tokens that are kept */
    float *embeddings;   /* tokens x embd, for the output rows */
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("gguf_make: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

static void help(void)
{
    printf("usage: gguf_make --vocab FILE --text FILE [OPTIONS] --out FILE\n"
           "\n"
           "Writes a small language model of the llama architecture as a GGUF file. The same options\n"
           "give the same file.\n"
           "\n"
           "  --vocab FILE   GGUF file with a SentencePiece vocabulary (llama.cpp's sources:\n"
           "                 models/ggml-vocab-llama-spm.gguf)\n"
           "  --text FILE    text whose words the model puts together again\n"
           "  --out FILE     where the model goes\n"
           "  --type TYPE    type of the weights: f16, q8_0, q4_k or q4_0 (default q8_0)\n"
           "  --size SIZE    tiny, small, medium or large: about 2, 8, 25, 50 MB with q8_0\n"
           "                 (default small)\n"
           "  --tokens N     keep the first N tokens of the vocabulary, 512 to all; 0 keeps all\n"
           "  --embd N       elements of the hidden state, a multiple of 256 up to %d\n"
           "  --ff N         elements of the feed-forward state, a multiple of 256 up to %d\n"
           "  --layers N     1 to 128\n"
           "  --context N    context length that the model names, 128 to 1048576 (default 2048)\n"
           "  --seed N       seed of the weights (default 14)\n"
           "  --help         this text\n"
           "\n"
           "--tokens, --embd, --ff and --layers change the chosen size.\n",
           ROW_MAX, ROW_MAX);
}

/* splitmix64: small, seeded, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Near enough to a normal distribution of variance 1, from sums of integers: no libm, whose last
 * bits differ between versions, and so the same file everywhere. */
static float next_normal(uint64_t *state)
{
    uint64_t r = next_random(state);
    int32_t sum = 0;

    for (int i = 0; i < 4; i++)
        sum += (int32_t)((r >> (16 * i)) & 0xffff) - 0x8000;
    return (float)sum * (1.0f / 37837.2f);
}

/* The seed of one tensor: independent of the order in which they are made. */
static uint64_t tensor_seed(const struct model *m, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u ^ m->seed;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static void add_tensor(struct model *m, const char *name, enum ggml_type type, const float *data,
                       int64_t columns, int64_t rows)
{
    struct ggml_tensor *t = rows > 1 ? ggml_new_tensor_2d(m->tensors, type, columns, rows)
                                     : ggml_new_tensor_1d(m->tensors, type, columns);

    if (!t)
        die("no memory for %s", name);
    ggml_set_name(t, name);
    if (type == GGML_TYPE_F32)
        memcpy(t->data, data, (size_t)(columns * rows) * sizeof(float));
    else
        ggml_quantize_chunk(type, data, t->data, 0, rows, columns, NULL);
    gguf_add_tensor(m->meta, t);
}

/* A matrix of normal weights with the given deviation. */
static void add_random(struct model *m, const char *name, int64_t columns, int64_t rows, float deviation)
{
    uint64_t state = tensor_seed(m, name);
    float *data = malloc((size_t)(columns * rows) * sizeof(float));

    if (!data)
        die("no memory for %s", name);
    for (int64_t i = 0; i < columns * rows; i++)
        data[i] = deviation * next_normal(&state);
    add_tensor(m, name, m->type, data, columns, rows);
    free(data);
}

/* The weights of a norm: near 1, but not 1, so that forgetting them shows. */
static void add_norm(struct model *m, const char *name)
{
    uint64_t state = tensor_seed(m, name);
    float data[ROW_MAX];

    for (int i = 0; i < m->s.embd; i++)
        data[i] = 1.0f + 0.1f * next_normal(&state);
    add_tensor(m, name, GGML_TYPE_F32, data, m->s.embd, 1);
}

/*
 * The first layer's values and output: attention returns the picked embedding, times MEMORY. So the
 * state holds the earlier tokens, and the output rows can avoid them.
 */
static void add_memory(struct model *m, const char *values, const char *output)
{
    int64_t embd = m->s.embd, head = embd / m->s.heads, kv = head * m->s.kv_heads;
    int group = m->s.heads / m->s.kv_heads;
    uint64_t state = tensor_seed(m, values);
    float *v = malloc((size_t)(kv * embd) * sizeof(float));
    float *o = malloc((size_t)(embd * embd) * sizeof(float));

    if (!v || !o)
        die("no memory for %s", values);
    for (int64_t i = 0; i < kv * embd; i++)
        v[i] = next_normal(&state) / sqrtf((float)embd);
    for (int64_t row = 0; row < embd; row++) {
        for (int64_t i = 0; i < embd; i++) /* element i of the heads: element i % head of head i / head */
            o[row * embd + i] = MEMORY * v[(i / head / group * head + i % head) * embd + row];
    }
    add_tensor(m, values, m->type, v, embd, kv);
    add_tensor(m, output, m->type, o, embd, embd);
    free(v);
    free(o);
}

/*
 * One layer. Deviations: a row of n weights of deviation g/sqrt(n) maps a state of variance 1 to
 * one of variance g*g. Queries and keys get 1.2 so that attention prefers some tokens; the terms that
 * attention and feed-forward add are smaller than the state, which keeps it bounded over many layers.
 */
static void add_layer(struct model *m, int layer)
{
    const struct size *s = &m->s;
    float in = 1.0f / sqrtf((float)s->embd), hidden = 1.0f / sqrtf((float)s->ff);
    int64_t kv = (int64_t)s->embd / s->heads * s->kv_heads;
    char name[64];

#define NAME(what) (snprintf(name, sizeof(name), "blk.%d." what ".weight", layer), name)
    add_norm(m, NAME("attn_norm"));
    add_random(m, NAME("attn_q"), s->embd, s->embd, (layer ? 1.2f : 0.5f) * in);
    add_random(m, NAME("attn_k"), s->embd, kv, (layer ? 1.2f : 0.5f) * in);
    if (layer == 0) {
        char values[64];

        snprintf(values, sizeof(values), "%s", NAME("attn_v"));
        add_memory(m, values, NAME("attn_output"));
    } else {
        add_random(m, NAME("attn_v"), s->embd, kv, in);
        add_random(m, NAME("attn_output"), s->embd, s->embd, 0.4f * in);
    }
    add_norm(m, NAME("ffn_norm"));
    add_random(m, NAME("ffn_gate"), s->embd, s->ff, 1.5f * in);
    add_random(m, NAME("ffn_up"), s->embd, s->ff, in);
    add_random(m, NAME("ffn_down"), s->ff, s->embd, 0.4f * hidden);
#undef NAME
}

static void add_embeddings(struct model *m)
{
    uint64_t state = tensor_seed(m, "token_embd.weight");
    int64_t n = (int64_t)m->s.tokens * m->s.embd;

    m->embeddings = malloc((size_t)n * sizeof(float));
    if (!m->embeddings)
        die("no memory for the embeddings");
    for (int64_t i = 0; i < n; i++)
        m->embeddings[i] = next_normal(&state);
    add_tensor(m, "token_embd.weight", m->type, m->embeddings, m->s.embd, m->s.tokens);
}

/* The longest kept token that `text` begins with, or its first byte's token; its length in *used. The
 * tokenizer differs slightly, which does not matter here: common words are one token in both. */
static int longest_piece(const struct model *m, const char *text, size_t *used)
{
    int best = BYTE_TOKENS + (unsigned char)text[0];

    *used = 1;
    for (int i = SPECIAL_TOKENS; i < m->s.tokens; i++) {
        size_t len = strlen(m->pieces[i]);

        if (len >= *used && len <= MAX_PIECE && strncmp(text, m->pieces[i], len) == 0) {
            best = i;
            *used = len;
        }
    }
    return best;
}

/* The text with SentencePiece's sign for a blank, U+2581, before each word. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t size, n = 0;
    char *raw, *text;

    if (!f || fseek(f, 0, SEEK_END) || ftell(f) <= 0 || ftell(f) > 1 << 20)
        die("%s: not a text of 1 byte to 1 MiB", path);
    size = (size_t)ftell(f);
    rewind(f);
    raw = malloc(size);
    text = malloc(size * 3 + 4);
    if (!raw || !text || fread(raw, 1, size, f) != size)
        die("cannot read %s", path);
    fclose(f);
    memcpy(text, "\xe2\x96\x81", 3);
    n = 3;
    for (size_t i = 0; i < size; i++) {
        if (raw[i] == ' ' || raw[i] == '\n') {
            memcpy(text + n, "\xe2\x96\x81", 3);
            n += 3;
        } else {
            text[n++] = raw[i];
        }
    }
    text[n] = 0;
    free(raw);
    return text;
}

/* True when the token pair at `n` is the first of its kind. */
static bool first_of_its_kind(const int *tokens, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (tokens[i - 1] == tokens[n - 1] && tokens[i] == tokens[n])
            return false;
    }
    return true;
}

/* Noise, plus in each row the embeddings of the tokens that come before that token in the text: once
 * per pair, however often it occurs, or the model would say the most frequent words only. */
static void add_output(struct model *m)
{
    uint64_t state = tensor_seed(m, "output.weight");
    int64_t embd = m->s.embd, n = m->s.tokens * embd;
    float *data = malloc((size_t)n * sizeof(float));
    char *text = read_text(m->text), *p = text;
    int *tokens = malloc(strlen(text) * sizeof(*tokens));

    if (!data || !tokens)
        die("no memory for the output");
    for (int64_t i = 0; i < n; i++)
        data[i] = OUTPUT_NOISE * next_normal(&state) - OUTPUT_AVOID * m->embeddings[i];
    for (size_t at = 0, used; *p; p += used, at++) {
        tokens[at] = longest_piece(m, p, &used);
        if (at == 0 || !first_of_its_kind(tokens, at))
            continue;
        for (int64_t i = 0; i < embd; i++)
            data[tokens[at] * embd + i] += OUTPUT_FOLLOW * m->embeddings[tokens[at - 1] * embd + i];
    }
    free(text);
    free(tokens);
    add_tensor(m, "output.weight", m->type, data, embd, m->s.tokens);
    free(data);
}

/* Copies the tokenizer's fields of the vocabulary file, with arrays cut to the kept tokens. */
static void add_tokenizer(struct model *m)
{
    struct gguf_init_params none = {.no_alloc = true};
    struct gguf_context *vocab = gguf_init_from_file(m->vocab, none);
    static const char *const ids[] = {"bos", "eos", "unknown"};
    int64_t tokens, scores, types, model;
    size_t n;

    if (!vocab)
        die("%s: not a GGUF file", m->vocab);
    model = gguf_find_key(vocab, "tokenizer.ggml.model");
    tokens = gguf_find_key(vocab, "tokenizer.ggml.tokens");
    scores = gguf_find_key(vocab, "tokenizer.ggml.scores");
    types = gguf_find_key(vocab, "tokenizer.ggml.token_type");
    if (model < 0 || tokens < 0 || scores < 0 || types < 0 ||
        strcmp(gguf_get_val_str(vocab, model), "llama") != 0)
        die("%s has no SentencePiece vocabulary", m->vocab);
    n = gguf_get_arr_n(vocab, tokens);
    if (m->s.tokens == 0)
        m->s.tokens = (int)n;
    if (m->s.tokens < 512 || (size_t)m->s.tokens > n)
        die("--tokens: not 512 to %zu", n);
    m->pieces = calloc((size_t)m->s.tokens, sizeof(*m->pieces));
    if (!m->pieces)
        die("no memory for the vocabulary");
    for (int i = 0; i < m->s.tokens; i++)
        m->pieces[i] = strdup(gguf_get_arr_str(vocab, tokens, (size_t)i));
    gguf_set_val_str(m->meta, "tokenizer.ggml.model", "llama");
    gguf_set_val_str(m->meta, "tokenizer.ggml.pre", "default");
    gguf_set_arr_str(m->meta, "tokenizer.ggml.tokens", m->pieces, (size_t)m->s.tokens);
    gguf_set_arr_data(m->meta, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, gguf_get_arr_data(vocab, scores),
                      (size_t)m->s.tokens);
    gguf_set_arr_data(m->meta, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, gguf_get_arr_data(vocab, types),
                      (size_t)m->s.tokens);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char key[64];
        int64_t id;

        snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", ids[i]);
        id = gguf_find_key(vocab, key);
        if (id >= 0)
            gguf_set_val_u32(m->meta, key, gguf_get_val_u32(vocab, id));
    }
    gguf_set_val_bool(m->meta, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(m->meta, "tokenizer.ggml.add_eos_token", false);
    gguf_free(vocab);
}

/* llama.cpp's number for "mostly this type" (llama_ftype in llama.h). */
static uint32_t file_type(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F16:
        return 1;
    case GGML_TYPE_Q4_0:
        return 2;
    case GGML_TYPE_Q8_0:
        return 7;
    default:
        return 14; /* Q4_K */
    }
}

static void add_description(struct model *m)
{
    const struct size *s = &m->s;

    gguf_set_val_str(m->meta, "general.architecture", "llama");
    gguf_set_val_str(m->meta, "general.name", "vgpu demo");
    gguf_set_val_u32(m->meta, "general.file_type", file_type(m->type));
    gguf_set_val_u32(m->meta, "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u32(m->meta, "llama.vocab_size", (uint32_t)s->tokens);
    gguf_set_val_u32(m->meta, "llama.context_length", (uint32_t)m->context);
    gguf_set_val_u32(m->meta, "llama.embedding_length", (uint32_t)s->embd);
    gguf_set_val_u32(m->meta, "llama.block_count", (uint32_t)s->layers);
    gguf_set_val_u32(m->meta, "llama.feed_forward_length", (uint32_t)s->ff);
    gguf_set_val_u32(m->meta, "llama.attention.head_count", (uint32_t)s->heads);
    gguf_set_val_u32(m->meta, "llama.attention.head_count_kv", (uint32_t)s->kv_heads);
    gguf_set_val_u32(m->meta, "llama.rope.dimension_count", (uint32_t)(s->embd / s->heads));
    gguf_set_val_f32(m->meta, "llama.rope.freq_base", 10000.0f);
    gguf_set_val_f32(m->meta, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static long number(const char *option, const char *text, long low, long high)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end || v < low || v > high)
        die("--%s: '%s' is not a number from %ld to %ld", option, text, low, high);
    return v;
}

static void choose_size(struct model *m, const char *name)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (strcmp(name, sizes[i].name) == 0) {
            m->s = sizes[i];
            return;
        }
    }
    die("--size: '%s' is not one of tiny, small, medium, large", name);
}

static enum ggml_type parse_type(const char *name)
{
    static const struct {
        const char *name;
        enum ggml_type type;
    } types[] = {
        {"f16", GGML_TYPE_F16},
        {"q8_0", GGML_TYPE_Q8_0},
        {"q4_k", GGML_TYPE_Q4_K},
        {"q4_0", GGML_TYPE_Q4_0},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(name, types[i].name) == 0)
            return types[i].type;
    }
    die("--type: '%s' is not one of f16, q8_0, q4_k, q4_0", name);
}

static void parse_options(struct model *m, int argc, char **argv)
{
    static const struct option options[] = {
        {"vocab", 1, NULL, 'v'},  {"text", 1, NULL, 'x'},   {"out", 1, NULL, 'o'},     {"type", 1, NULL, 't'},
        {"size", 1, NULL, 's'},   {"tokens", 1, NULL, 'n'}, {"embd", 1, NULL, 'e'},    {"ff", 1, NULL, 'f'},
        {"layers", 1, NULL, 'l'}, {"seed", 1, NULL, 'S'},   {"context", 1, NULL, 'c'}, {"help", 0, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    long tokens = -1, embd = 0, ff = 0, layers = 0;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (o) {
        case 'v':
            m->vocab = optarg;
            break;
        case 'x':
            m->text = optarg;
            break;
        case 'o':
            m->out = optarg;
            break;
        case 't':
            m->type = parse_type(optarg);
            break;
        case 's':
            choose_size(m, optarg);
            break;
        case 'n':
            tokens = number("tokens", optarg, 0, 1 << 20);
            break;
        case 'e':
            embd = number("embd", optarg, 256, ROW_MAX);
            break;
        case 'f':
            ff = number("ff", optarg, 256, ROW_MAX);
            break;
        case 'l':
            layers = number("layers", optarg, 1, 128);
            break;
        case 'c':
            m->context = (int)number("context", optarg, 128, 1 << 20);
            break;
        case 'S':
            m->seed = (uint64_t)number("seed", optarg, 0, INT32_MAX);
            break;
        case 'h':
            help();
            exit(0);
        default:
            fputs("gguf_make: see --help\n", stderr);
            exit(2);
        }
    }
    if (optind != argc || !m->vocab || !m->text || !m->out)
        die("--vocab, --text and --out are needed; see --help");
    if (embd % 256 || ff % 256)
        die("--embd and --ff are multiples of 256");
    if (tokens >= 0)
        m->s.tokens = (int)tokens;
    if (embd) { /* heads of 64 elements, half as many for keys and values */
        m->s.embd = (int)embd;
        m->s.heads = (int)embd / 64;
        m->s.kv_heads = m->s.heads / 2;
    }
    m->s.ff = ff ? (int)ff : m->s.ff;
    m->s.layers = layers ? (int)layers : m->s.layers;
}

int main(int argc, char **argv)
{
    struct model m = {.s = sizes[1], .context = 2048, .type = GGML_TYPE_Q8_0, .seed = 14};
    struct ggml_init_params params = {0};
    size_t elements;

    parse_options(&m, argc, argv);
    m.meta = gguf_init_empty();
    add_description(&m);
    add_tokenizer(&m);
    gguf_set_val_u32(m.meta, "llama.vocab_size", (uint32_t)m.s.tokens);
    /* At most 2 bytes per element (F16), norms and the tensors' own structs. */
    elements = 2 * (size_t)m.s.tokens * (size_t)m.s.embd +
               (size_t)m.s.layers * (size_t)m.s.embd * (4 * (size_t)m.s.embd + 3 * (size_t)m.s.ff + 8);
    params.mem_size = elements * 2 + (size_t)(m.s.layers * 9 + 3) * (ggml_tensor_overhead() + 64) +
                      ((size_t)m.s.embd * 4 + 4096);
    m.tensors = ggml_init(params);
    if (!m.tensors)
        die("no memory for %zu bytes of weights", params.mem_size);
    add_embeddings(&m);
    for (int i = 0; i < m.s.layers; i++)
        add_layer(&m, i);
    add_norm(&m, "output_norm.weight");
    add_output(&m);
    if (!gguf_write_to_file(m.meta, m.out, false))
        die("cannot write %s", m.out);
    for (int i = 0; i < m.s.tokens; i++)
        free((char *)(uintptr_t)m.pieces[i]);
    free(m.pieces);
    free(m.embeddings);
    ggml_free(m.tensors);
    gguf_free(m.meta);
    return 0;
}
