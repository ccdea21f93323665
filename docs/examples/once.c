/* A program in one file that answers one prompt and ends, for roost's `command_once`.

       cc -O2 -o once once.c
       once PROMPT_FILE MAX_TOKENS

   Its "model" says the words of the prompt again; a real one goes in the place of `next_word`.
   docs/runners.md has its card. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT_MAX_BYTES = 16 * 1024 * 1024 };

/* Give where the word that begins at `at` ends, with the white space before it. */
static size_t word_end(const char *text, size_t at, size_t size) {
    while (at < size && isspace((unsigned char)text[at])) at++;
    while (at < size && !isspace((unsigned char)text[at])) at++;
    return at;
}

/* Give where the word after the one that ends at `at` begins: a real model computes here. */
static size_t next_word(size_t at, size_t size) { return at < size ? at : 0; }

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: once PROMPT_FILE MAX_TOKENS\n");
        return 2;
    }
    FILE *file = fopen(words[1], "rb");
    char *text = malloc(PROMPT_MAX_BYTES);
    if (file == NULL || text == NULL) {
        fprintf(stderr, "the prompt cannot be read\n");
        return 1;
    }
    size_t size = fread(text, 1, PROMPT_MAX_BYTES, file), at = 0;
    fclose(file);
    long limit = strtol(words[2], NULL, 10), said = 0, prompt = 0;
    for (size_t end = 0; end < size; end = word_end(text, end, size)) prompt++;
    for (; said < limit && said < 64 && size > 0; said++) {
        size_t from = next_word(at, size);
        at = word_end(text, from, size);
        fwrite(text + from, 1, at - from, stdout);
        fflush(stdout);
    }
    fprintf(stderr, "Prompt: %ld tokens\nAnswer: %ld tokens\n", prompt, said);
    free(text);
    return 0;
}
