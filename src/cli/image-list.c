/* SPDX-License-Identifier: Apache-2.0 */
/* `cay image list`: the images that a run can have, and those that can be built. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/image.h"
#include "cli/print.h"

static const char about[] = "Lists the images that `--image` can name: the caller's own, then the "
                            "system's. On a terminal as a\n"
                            "table; in a pipe one line each, tab-separated: name, bytes, files, "
                            "packages, runs that use it,\n"
                            "creation time, where (user, system), digest, and source.";

static const char examples[] = "  cay image list\n"
                               "  cay image list --json | jq -r '.[] | .name'\n"
                               "  cay image list --available\n";

static void put_table(struct strbuf *out, const struct cay_images *images)
{
    const struct cay_image *image;

    strbuf_printf(out, "%-18s %9s %8s %4s  %-17s %-6s %-14s %s\n", "NAME", "SIZE", "PACKAGES",
                  "USED", "MADE (UTC)", "WHERE", "DIGEST", "FROM");
    for (size_t i = 0; (image = cay_images_at(images, i)); i++) {
        strbuf_printf(out, "%-18s %6.1f MB %8zu %4u  %-17.16s %-6s %-14.12s ", image->name,
                      (double)image->bytes / 1e6, image->n_packages, image->n_users, image->created,
                      image->is_system ? "system" : "user", image->digest + strlen("sha256:"));
        sanitize_text(out, image->from);
        strbuf_putc(out, '\n');
    }
}

static void put_columns(struct strbuf *out, const struct cay_images *images)
{
    const struct cay_image *image;

    for (size_t i = 0; (image = cay_images_at(images, i)); i++) {
        strbuf_printf(out, "%s\t%llu\t%llu\t%zu\t%u\t%s\t%s\t%s\t", image->name,
                      (unsigned long long)image->bytes, (unsigned long long)image->files,
                      image->n_packages, image->n_users, image->created,
                      image->is_system ? "system" : "user", image->digest);
        sanitize_text(out, image->from);
        strbuf_putc(out, '\n');
    }
}

static void put_json(struct strbuf *out, const struct cay_images *images)
{
    struct json_writer w = { .out = out, .pretty = true };
    const struct cay_image *image;

    json_begin_array(&w);
    for (size_t i = 0; (image = cay_images_at(images, i)); i++) {
        json_begin_object(&w);
        json_field_string(&w, "name", image->name);
        json_field_string(&w, "digest", image->digest);
        json_field_uint(&w, "size", image->bytes);
        json_field_uint(&w, "files", image->files);
        json_field_string(&w, "created", image->created);
        json_field_string(&w, "from", image->from);
        json_field_string(&w, "where", image->is_system ? "system" : "user");
        json_field_uint(&w, "used_by", image->n_users);
        json_field_array(&w, "packages");
        for (const char *const *package = image->packages; *package; package++)
            json_put_string(&w, *package);
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    strbuf_putc(out, '\n');
}

static int put_available(struct strbuf *out, bool as_json, struct cay_error *err)
{
    struct json_writer w = { .out = out, .pretty = true };
    const struct cay_image_definition *definition;
    struct cay_image_definitions *list;

    if (cay_image_definitions_open(&list, err) < 0)
        return -1;
    if (as_json)
        json_begin_array(&w);
    for (size_t i = 0; (definition = cay_image_definition_at(list, i)); i++) {
        if (!as_json) {
            strbuf_printf(out, "%-18s %s\n", definition->name, definition->title);
            continue;
        }
        json_begin_object(&w);
        json_field_string(&w, "name", definition->name);
        json_field_string(&w, "title", definition->title);
        json_field_array(&w, "packages");
        for (const char *const *package = definition->packages; *package; package++)
            json_put_string(&w, *package);
        json_end_array(&w);
        json_end_object(&w);
    }
    if (as_json) {
        json_end_array(&w);
        strbuf_putc(out, '\n');
    }
    cay_image_definitions_close(list);
    return 0;
}

int image_list(int argc, char **argv)
{
    bool as_json = false, available = false, help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 0, "available", NULL, "list what `cay image build` can build", &available },
        { OPT_BOOL, 0, "json", NULL, "print a JSON array", &as_json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    auto_strbuf struct strbuf out = { 0 };
    struct cay_images *images;
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay image list [options]", about, opts, examples);
    if (first < argc)
        return print_unexpected_argument("image list", argv[first]);
    if (available) {
        int rc = put_available(&out, as_json, &err);
        return rc < 0 ? print_error(&err) : print_text(strbuf_str(&out));
    }
    if (cay_images_list(&images, &err) < 0)
        return print_error(&err);
    if (as_json)
        put_json(&out, images);
    else if (!isatty(STDOUT_FILENO))
        put_columns(&out, images);
    else if (cay_images_at(images, 0))
        put_table(&out, images);
    else
        print_message(
            "there are no images yet; `cay image list --available` shows what can be built");
    cay_images_free(images);
    return print_text(strbuf_str(&out));
}
