/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns files into a C array, so that the command carries its data with it:
 *
 *     embed TABLE OUTPUT [NAME=PATH]...
 *
 * writes to OUTPUT a `const struct embedded_file TABLE[]` (core/embedded.h) with a row a file and
 * an empty row at the end. Runs while building only; a failure ends it with a message.
 */

#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Octal escapes end after three digits, whatever follows; hexadecimal ones do not. */
static void put_byte(FILE *out, int byte)
{
    if (byte == '\n')
        fputs("\\n\"\n      \"", out);
    else if (byte == '"' || byte == '\\')
        fprintf(out, "\\%c", byte);
    else if (byte >= ' ' && byte < 0x7f && byte != '?') /* "??" could be a trigraph */
        fputc(byte, out);
    else
        fprintf(out, "\\%03o", byte);
}

static void put_row(FILE *out, const char *name, const char *path)
{
    FILE *in = fopen(path, "re");
    if (!in)
        error(1, errno, "open %s", path);

    size_t len = 0;
    fprintf(out, "    { \"%s\",\n      \"", name);
    for (int byte; (byte = fgetc(in)) != EOF; len++)
        put_byte(out, byte);
    fprintf(out, "\",\n      %zu },\n", len);
    if (ferror(in))
        error(1, errno, "read %s", path);
    fclose(in);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        error(2, 0, "usage: embed TABLE OUTPUT [NAME=PATH]...");
    FILE *out = fopen(argv[2], "we");
    if (!out)
        error(1, errno, "open %s", argv[2]);

    fprintf(out,
            "/* Written by tools/embed.c. */\n"
            "#include \"core/embedded.h\"\n\n"
            "const struct embedded_file %s[] = {\n",
            argv[1]);
    for (int i = 3; i < argc; i++) {
        char *path = strchr(argv[i], '=');
        if (!path)
            error(2, 0, "%s is not NAME=PATH", argv[i]);
        *path++ = '\0';
        put_row(out, argv[i], path);
    }
    fputs("    { 0 },\n};\n", out);

    if (ferror(out) || fclose(out) != 0)
        error(1, errno, "write %s", argv[2]);
    return 0;
}
