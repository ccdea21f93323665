/* A runner in one file of C, without libraries: what a program does that serves a model through
   roost's `command`.

       cc -O2 -o runner runner.c
       runner [MICROSECONDS]

   Its "model" says what followed the last few bytes before, and takes so many microseconds for a
   token; put a real one in the place of `next_token`. docs/runners.md describes the protocol. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS_MAX = 256, VOCAB_SIZE = 259, READ_BYTES = 65536 };

static const char *const SPECIAL[] = {"<s>", "<|im_start|>", "<|im_end|>"}; /* 256, 257, 258 */

struct run {
    long number; /* 0: the slot is free */
    int *tokens;
    size_t count, prompt, filled;
    long limit, said;
    int began, paused;
};

static struct run runs[SLOTS_MAX];
static size_t batch = 256;
static long token_us;

static void *must(void *memory) {
    if (memory == NULL) {
        fprintf(stderr, "no memory left\n");
        exit(1);
    }
    return memory;
}

/* ---- JSON, as much as the protocol needs: values are found by name and read in place ---- */

static const char *space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n') at++;
    return at;
}

static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

static const char *skip(const char *at) {
    int depth = 0;
    do {
        at = space(at);
        if (*at == '"') {
            at = skip_string(at);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (*at == ',' || *at == ':') {
            at++;
        } else {
            while (*at && !strchr(" \t\r\n,:]}", *at)) at++;
        }
    } while (depth > 0 && *at);
    return at;
}

/* Give where the value of a name begins, NULL where the object has none. */
static const char *field(const char *object, const char *name) {
    const char *at = space(object);
    size_t size = strlen(name);
    if (*at != '{') return NULL;
    at = space(at + 1);
    while (*at == '"') {
        const char *key = at + 1, *end = skip_string(at);
        int found = (size_t)(end - key) == size + 1 && memcmp(key, name, size) == 0;
        at = space(end);
        if (*at != ':') return NULL;
        at = space(at + 1);
        if (found) return at;
        at = space(skip(at));
        if (*at == ',') at = space(at + 1);
    }
    return NULL;
}

static long number(const char *object, const char *name) {
    const char *value = field(object, name);
    return value ? strtol(value, NULL, 10) : 0;
}

static int truth(const char *object, const char *name) {
    const char *value = field(object, name);
    return value != NULL && *value == 't';
}

static int is(const char *object, const char *name, const char *text) {
    const char *value = field(object, name);
    size_t size = strlen(text);
    return value && *value == '"' && !strncmp(value + 1, text, size) && value[size + 1] == '"';
}

/* Write a character; give how many bytes it has. */
static size_t utf8(unsigned long code, char *out) {
    static const int FIRST[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t one = size; one-- > 1; code >>= 6) out[one] = (char)(0x80 | (code & 63));
    out[0] = (char)(FIRST[size] | (int)code);
    return size;
}

static unsigned long hex4(const char *at) {
    char digits[5] = {0};
    strncpy(digits, at, 4);
    return strtoul(digits, NULL, 16);
}

/* Read the string that begins at `at` into memory of the caller's. */
static char *string(const char *at, size_t *size) {
    const char *end = skip_string(at);
    char *text = must(malloc((size_t)(end - at) + 1));
    size_t done = 0;
    for (at++; at < end - 1; at++) {
        if (*at != '\\') {
            text[done++] = *at;
            continue;
        }
        at++;
        const char *plain = strchr("b\bf\fn\nr\rt\t", *at);
        if (*at == 'u') {
            unsigned long code = hex4(at + 1);
            at += 4;
            if (code >= 0xD800 && code < 0xDC00 && at[1] == '\\' && at[2] == 'u') {
                code = 0x10000 + ((code - 0xD800) << 10) + (hex4(at + 3) - 0xDC00);
                at += 6;
            }
            done += utf8(code, text + done);
        } else {
            text[done++] = plain && strchr("bfnrt", *at) ? plain[1] : *at;
        }
    }
    *size = done;
    return text;
}

/* ---- the model ---- */

/* Write the tokens of a text to `out`, one for each byte or special token; give how many. */
static size_t tokenize(const char *text, size_t size, int special, int *out) {
    size_t count = 0, at = 0;
    while (at < size) {
        size_t taken = 1;
        int token = (unsigned char)text[at];
        for (int one = 0; special && one < 3; one++) {
            size_t length = strlen(SPECIAL[one]);
            if (size - at >= length && memcmp(text + at, SPECIAL[one], length) == 0) {
                token = 256 + one;
                taken = length;
            }
        }
        out[count++] = token;
        at += taken;
    }
    return count;
}

static int next_token(const int *tokens, size_t count) {
    static const size_t SIZES[] = {6, 3, 1};
    for (int one = 0; one < 3; one++) {
        size_t size = SIZES[one];
        for (size_t at = count > size ? count - size - 1 : 0; at > 0; at--)
            if (memcmp(tokens + at, tokens + count - size, size * sizeof *tokens) == 0 &&
                tokens[at + size] < 256)
                return tokens[at + size];
    }
    return ' ';
}

static void compute(void) { /* a real model takes its time here */
    struct timespec wait = {token_us / 1000000, token_us % 1000000 * 1000};
    if (token_us) nanosleep(&wait, NULL);
}

/* ---- orders and words ---- */

static void on_tokenize(const char *order) {
    const char *at = field(order, "pieces");
    int special = truth(order, "special"), *tokens = NULL;
    size_t count = 0, most = (size_t)number(order, "tokens_max");
    at = at && *at == '[' ? space(at + 1) : "";
    while (*at == '"') {
        size_t size;
        char *text = string(at, &size);
        tokens = must(realloc(tokens, (count + size + 1) * sizeof *tokens));
        count += tokenize(text, size, special, tokens + count);
        free(text);
        at = space(skip_string(at));
        if (*at == ',') at = space(at + 1);
    }
    printf("{\"type\":\"tokenized\",\"ask\":%ld,\"count\":%zu,", number(order, "ask"), count);
    printf("\"tokens\":[");
    for (size_t one = 0; count <= most && one < count; one++)
        printf(one ? ",%d" : "%d", tokens[one]);
    printf("]}\n");
    free(tokens);
}

static void on_run(const char *order) {
    struct run *run = &runs[number(order, "slot") % SLOTS_MAX];
    const char *at = field(order, "tokens");
    size_t room = 1;
    for (const char *look = at; look && *look && *look != ']'; look++) room += *look == ',';
    run->number = number(order, "run");
    run->limit = number(order, "limit");
    run->tokens = must(malloc((room + (size_t)run->limit) * sizeof *run->tokens));
    run->count = run->filled = 0;
    run->said = run->began = run->paused = 0;
    for (at = at ? space(at + 1) : ""; *at && *at != ']'; at = space(skip(at))) {
        if (*at == ',') at = space(at + 1);
        run->tokens[run->count++] = (int)strtol(at, NULL, 10);
    }
    run->prompt = run->count;
}

static void over(struct run *run, const char *reason) {
    printf("{\"type\":\"over\",\"run\":%ld,\"reason\":\"%s\"}\n", run->number, reason);
    free(run->tokens);
    run->number = 0;
}

static void on_order(const char *order) {
    if (is(order, "type", "load")) {
        long ctx = number(order, "ctx");
        batch = (size_t)number(order, "batch");
        printf("{\"type\":\"loaded\",\"ctx\":%ld,\"vocab_size\":%d,\"bos\":[256]}\n",
               ctx ? ctx : 4096, VOCAB_SIZE);
    } else if (is(order, "type", "tokenize")) {
        on_tokenize(order);
    } else if (is(order, "type", "run")) {
        on_run(order);
    } else {
        long wanted = number(order, "run");
        for (struct run *run = runs; run < runs + SLOTS_MAX; run++) {
            if (run->number == 0 || run->number != wanted) continue;
            if (is(order, "type", "cancel")) over(run, "cancelled");
            if (is(order, "type", "flow")) run->paused = truth(order, "paused");
        }
    }
}

static void say(struct run *run, int token) {
    static const char SIX[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";
    printf("{\"type\":\"said\",\"run\":%ld,\"token\":%d,\"raw\":\"%c%c==\"}\n", run->number, token,
           SIX[token >> 2], SIX[(token & 3) << 4]);
}

/* Compute a batch of the prompt, or a token. */
static void step(struct run *run) {
    if (!run->began) {
        printf("{\"type\":\"began\",\"run\":%ld,\"cached\":0}\n", run->number);
        run->began = 1;
        return;
    }
    compute();
    if (run->filled < run->prompt) {
        run->filled = run->prompt - run->filled > batch ? run->filled + batch : run->prompt;
        printf("{\"type\":\"filled\",\"run\":%ld,\"done\":%zu}\n", run->number, run->filled);
        return;
    }
    int token = next_token(run->tokens, run->count);
    run->tokens[run->count++] = token;
    say(run, token);
    if (++run->said == run->limit) over(run, "length");
}

/* Give every run that is not paused a step; say whether there was one. */
static int turn(void) {
    int worked = 0;
    for (struct run *run = runs; run < runs + SLOTS_MAX; run++)
        if (run->number && !run->paused) {
            step(run);
            worked = 1;
        }
    fflush(stdout);
    return worked;
}

int main(int count, char **words) {
    char *text = NULL;
    size_t size = 0;
    int busy = 0;
    if (count > 1) token_us = strtol(words[1], NULL, 10);
    printf("{\"type\":\"hello\",\"version\":1}\n");
    fflush(stdout);
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, busy ? 0 : -1) > 0) {
            text = must(realloc(text, size + READ_BYTES + 1));
            ssize_t more = read(0, text + size, READ_BYTES);
            if (more <= 0) return 0;
            size += (size_t)more;
            char *begin = text, *end;
            while ((end = memchr(begin, '\n', size - (size_t)(begin - text))) != NULL) {
                *end = '\0';
                on_order(begin);
                begin = end + 1;
            }
            size -= (size_t)(begin - text);
            memmove(text, begin, size);
        }
        busy = turn();
    }
}
