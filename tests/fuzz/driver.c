/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a fuzz target over its corpus without libFuzzer, as an ordinary test with TAP output:
 *
 *     fuzz-NAME FILE|FOLDER...
 *
 * Each file is given whole and cut off at every length, which is where parsers read too far. The
 * bytes lie at the end of a block of their exact size, so that the address sanitizer sees it.
 * What goes wrong ends the process, and the plan says how many tests are missing.
 */

#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Past it only the whole file is given: the work grows with the square of the length. */
#define CUT_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct paths {
    char **names;
    size_t count;
};

static void paths_add(struct paths *paths, const char *name)
{
    paths->names = realloc(paths->names, (paths->count + 1) * sizeof(*paths->names));
    char *copy = strdup(name);
    if (!paths->names || !copy)
        error(1, errno, "%s", name);
    paths->names[paths->count++] = copy;
}

static void add_folder(struct paths *paths, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        error(1, errno, "%s", folder);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
            error(1, errno, "%s", folder);
        if (entries[i]->d_name[0] != '.')
            paths_add(paths, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
}

static uint8_t *load(const char *path, size_t *ret_size)
{
    FILE *in = fopen(path, "re");
    struct stat st;
    if (!in || fstat(fileno(in), &st) < 0)
        error(1, errno, "%s", path);

    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, in) != size)
        error(1, errno, "read %s", path);
    fclose(in);
    *ret_size = size;
    return data;
}

static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        error(1, errno, "%zu bytes", size);
    if (size)
        memcpy(copy, data, size);
    /* A target may refuse an input (-1); nothing else but 0 is an answer. */
    int answer = LLVMFuzzerTestOneInput(copy, size);
    if (answer != 0 && answer != -1)
        error(1, 0, "the target returned %d", answer);
    free(copy);
}

int main(int argc, char **argv)
{
    struct paths paths = { 0 };
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) < 0)
            error(1, errno, "%s", argv[i]);
        if (S_ISDIR(st.st_mode))
            add_folder(&paths, argv[i]);
        else
            paths_add(&paths, argv[i]);
    }
    if (paths.count == 0)
        error(1, 0, "no input: an empty corpus tests nothing");

    printf("1..%zu\n", paths.count);
    for (size_t i = 0; i < paths.count; i++) {
        size_t size = 0;
        uint8_t *data = load(paths.names[i], &size);
        run_one(data, size);
        for (size_t cut = 0; cut < size && cut < CUT_MAX; cut++)
            run_one(data, cut);
        free(data);

        const char *slash = strrchr(paths.names[i], '/');
        printf("ok %zu - %s\n", i + 1, slash ? slash + 1 : paths.names[i]);
        fflush(stdout);
        free(paths.names[i]);
    }
    free(paths.names);
    return 0;
}
