/* SPDX-License-Identifier: Apache-2.0 */
/* `cay image`: root file systems for runs, from Debian packages or from a tar. */
#include "cli/image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "images/archive.h"
#include "images/build.h"
#include "images/engine-export.h"

enum { DEFINITION_BYTES_MAX = 64 * 1024, EXIT_INTERRUPTED = 130 };

/* ---- what build and import share ---- */

/* What goes on: a line that changes where stderr is a terminal, else a line for each step. */
struct image_job {
    struct progress progress;
    struct strbuf what;
    const char *name;
};

static void on_line(void *arg, const char *text)
{
    struct image_job *job = arg;

    if (!job->progress.is_on) {
        print_message("image %s: %s", job->name, text);
        return;
    }
    progress_clear(&job->progress);
    strbuf_done(&job->what);
    strbuf_printf(&job->what, "image %s: ", job->name);
    sanitize_text(&job->what, text);
    job->progress.what = strbuf_str(&job->what);
    progress_tick(&job->progress);
}

static void on_tick(void *arg)
{
    struct image_job *job = arg;
    progress_tick(&job->progress);
}

/* Signals become something that can be waited for; a second one, too, only asks for the end. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void begin(struct image_job *job, const char *name, const char *what,
                  struct image_watch *watch)
{
    *job = (struct image_job){ .name = name };
    job->progress.is_on = isatty(STDERR_FILENO);
    progress_begin(&job->progress, what, true);
    *watch = (struct image_watch){ open_signals(), on_line, on_tick, job };
}

static int set_size(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    (void)opt;
    if (parse_bytes(value, target) < 0 || *(uint64_t *)target == 0)
        return cay_fail(err, CAY_E_USAGE, "'%.40s' is not a size such as 500m or 2g", value);
    return 0;
}

static void print_made(const char *name)
{
    const struct cay_image *image;
    struct cay_images *images;
    struct cay_error err;

    if (cay_images_list(&images, &err) < 0)
        return;
    for (size_t i = 0; (image = cay_images_at(images, i)); i++)
        if (strcmp(image->name, name) == 0)
            print_message("image %s: %.1f MB in %llu files, %zu packages, %s", name,
                          (double)image->bytes / 1e6, (unsigned long long)image->files,
                          image->n_packages, image->digest);
    cay_images_free(images);
}

/* ---- a container engine, that gets it too ---- */

struct engine {
    const char *name; /* NULL: none does */
    const char *tag;  /* NULL: cay/NAME */
};

static int set_engine(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    (void)opt;
    if (strcmp(value, "docker") != 0) {
        cay_fail(err, CAY_E_USAGE, "'%.40s' is not one of: docker", value);
        return cay_hint(err, "podman's socket works too: DOCKER_HOST=unix:///PATH");
    }
    *(const char **)target = value;
    return 0;
}

static int export_to_engine(const struct engine *engine, const char *name,
                            const struct image_watch *watch, struct cay_error *err)
{
    auto_close int root_fd = -1, lock_fd = -1;
    char tag[300];

    if (!engine->name)
        return 0;
    snprintf(tag, sizeof tag, "%s%s", engine->tag ? engine->tag : "cay/", engine->tag ? "" : name);
    if (cay_image_open(name, &root_fd, &lock_fd, err) < 0)
        return -1;
    if (watch->on_line)
        watch->on_line(watch->arg, "loading it into the container engine...");
    return image_to_engine(getenv("DOCKER_HOST"), root_fd, tag, watch, err);
}

/* Puts the image in its place, or takes away what there is of it. */
static int end(struct image_job *job, struct image_watch *watch, const struct engine *engine,
               struct cay_image_maker *maker, int rc, uint64_t left_out, struct cay_error *err)
{
    if (rc < 0)
        cay_image_drop(maker);
    else
        rc = cay_image_finish(maker, err);
    if (rc == 0)
        rc = export_to_engine(engine, job->name, watch, err);
    progress_clear(&job->progress);
    strbuf_done(&job->what);
    close_fd(&watch->cancel_fd);
    if (rc < 0)
        return err->errnum == EINTR ? (print_message("%s", err->msg), EXIT_INTERRUPTED)
                                    : print_error(err);
    if (left_out > 0)
        print_message("image %s: %llu devices, fifos and sockets were left out", job->name,
                      (unsigned long long)left_out);
    print_made(job->name);
    return 0;
}

/* ---- build ---- */

static const char about_build[] =
    "Builds an image from Debian packages with mmdebstrap, from a definition that comes with cay\n"
    "(`cay image list --available`) or a .toml file of your own. Built as root, the image is for "
    "every\n"
    "user; otherwise for you alone. An image of the same name is replaced; runs that use the old "
    "one\n"
    "keep it.";

static const char examples_build[] = "  sudo cay image build python-node\n"
                                     "  cay image build ./mine.toml --name mine\n"
                                     "  cay run --image python-node main.py\n";

static int read_definition(const char *path, struct cay_image_definitions **ret,
                           struct cay_error *err)
{
    auto_free char *text = mem_alloc(DEFINITION_BYTES_MAX);
    FILE *file = fopen(path, "re");

    if (!file)
        return cay_fail_errno(err, errno, "open %.200s", path);
    size_t len = fread(text, 1, DEFINITION_BYTES_MAX, file);
    int errnum = ferror(file) ? EIO : 0;
    fclose(file);
    if (errnum)
        return cay_fail_errno(err, errnum, "read %.200s", path);
    if (len == DEFINITION_BYTES_MAX)
        return cay_fail(err, CAY_E_LIMIT, "%.200s is longer than %d bytes", path,
                        DEFINITION_BYTES_MAX);
    return cay_image_definition_parse(text, len, path, ret, err);
}

static const struct cay_image_definition *
find_definition(const char *name, struct cay_image_definitions **ret, struct cay_error *err)
{
    const struct cay_image_definition *definition;
    const char *names[256];
    size_t n = 0, len = strlen(name);

    if (strchr(name, '/') || (len > 5 && strcmp(name + len - 5, ".toml") == 0))
        return read_definition(name, ret, err) < 0 ? NULL : cay_image_definition_at(*ret, 0);
    if (cay_image_definitions_open(ret, err) < 0)
        return NULL;
    for (; n < ARRAY_LEN(names) && (definition = cay_image_definition_at(*ret, n)); n++) {
        if (strcmp(definition->name, name) == 0)
            return definition;
        names[n] = definition->name;
    }
    const char *near = suggest(name, names, n);
    cay_fail(err, CAY_E_NOTFOUND, "image: unknown definition '%.60s'", name);
    if (near)
        cay_hint(err, "did you mean %s?", near);
    else
        cay_hint(err, "`cay image list --available` lists them");
    return NULL;
}

static int build(int argc, char **argv)
{
    struct image_build spec = { 0 };
    struct engine engine = { 0 };
    const char *name = NULL;
    uint64_t max_bytes = 0, left_out = 0;
    bool help = false;
    const struct opt opts[] = {
        { OPT_STR, 0, "name", "NAME", "name of the image (the definition's)", &name },
        { OPT_STR, 0, "suite", "NAME", "Debian release (this machine's, or bookworm)",
          &spec.suite },
        { OPT_STR, 0, "mirror", "URL", "where packages come from (as apt on this machine)",
          &spec.mirror },
        { OPT_CALL, 0, "max-size", "SIZE", "maximum size of its content (16g)", &max_bytes,
          set_size },
        { OPT_CALL, 0, "engine", "NAME", "also load it into a container engine: docker",
          &engine.name, set_engine },
        { OPT_STR, 0, "tag", "NAME[:TAG]", "its name there (cay/NAME)", &engine.tag },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_image_definitions *definitions = NULL;
    struct cay_image_maker *maker;
    struct image_job job;
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay image build [options] NAME|FILE.toml", about_build, opts,
                          examples_build);
    if (first + 1 < argc)
        return print_unexpected_argument("image build", argv[first + 1]);
    if (first == argc)
        return print_usage_error("`cay image list --available` lists them",
                                 "image build: which definition?");
    if ((spec.suite && spec.suite[0] == '-') || (spec.mirror && spec.mirror[0] == '-'))
        return print_usage_error(NULL, "image build: %s is an option, not a value",
                                 spec.suite ? spec.suite : spec.mirror);
    spec.definition = find_definition(argv[first], &definitions, &err);
    if (!spec.definition) {
        cay_image_definitions_close(definitions);
        return print_error(&err);
    }
    name = name ? name : spec.definition->name;
    if (cay_image_begin(name, max_bytes, &maker, &err) < 0) {
        cay_image_definitions_close(definitions);
        return print_error(&err);
    }
    begin(&job, name, "building an image", &spec.watch);
    int rc = image_build(&spec, maker, &left_out, &err);
    int status = end(&job, &spec.watch, &engine, maker, rc, left_out, &err);
    cay_image_definitions_close(definitions);
    return status;
}

/* ---- import ---- */

static const char about_import[] =
    "Makes an image from a tar, plain or compressed (gzip, bzip2, xz, zstd), as `docker export` "
    "and\n"
    "`cay image export` write it; - is stdin. The default name is the file's, without .tar. Paths "
    "and\n"
    "links that lead out of the archive are refused; devices are left out.";

static const char examples_import[] =
    "  docker export $(docker create alpine) | cay image import - alpine\n"
    "  cay image import rootfs.tar.zst mine --max-size 1g\n";

/* "dir/mine.tar.gz" is "mine". */
static void name_of_file(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *end_of = strstr(base, ".tar");
    const char *dot = end_of ? end_of : strrchr(base, '.');

    snprintf(out, size, "%.*s", (int)(dot ? (size_t)(dot - base) : strlen(base)), base);
}

static int open_archive(const char *path, struct cay_error *err)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        return STDIN_FILENO;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return cay_fail_errno(err, errno, "open %.200s", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        cay_fail(err, CAY_E_USAGE, "image: '%.200s' is a folder, not an archive", path);
        return cay_hint(err, "tar -C %.40s -c . | cay image import - NAME", path);
    }
    return fd;
}

static int import(int argc, char **argv)
{
    struct engine engine = { 0 };
    uint64_t max_bytes = 0, left_out = 0;
    bool help = false;
    const struct opt opts[] = {
        { OPT_CALL, 0, "max-size", "SIZE", "maximum size of its content (16g)", &max_bytes,
          set_size },
        { OPT_CALL, 0, "engine", "NAME", "also load it into a container engine: docker",
          &engine.name, set_engine },
        { OPT_STR, 0, "tag", "NAME[:TAG]", "its name there (cay/NAME)", &engine.tag },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    char own_name[256], from[256];
    struct cay_image_maker *maker;
    struct image_watch watch;
    struct image_job job;
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay image import [options] FILE|- [NAME]", about_import, opts,
                          examples_import);
    if (first + 2 < argc)
        return print_unexpected_argument("image import", argv[first + 2]);
    bool is_stdin = first < argc && strcmp(argv[first], "-") == 0;
    if (first == argc || (is_stdin && first + 1 == argc))
        return print_usage_error("cay image import FILE|- NAME", "image import: %s",
                                 first == argc ? "which file?" : "stdin needs a NAME");
    name_of_file(argv[first], own_name, sizeof own_name);
    const char *name = first + 1 < argc ? argv[first + 1] : own_name;
    const char *slash = strrchr(argv[first], '/');
    snprintf(from, sizeof from, "import %s", is_stdin ? "-" : slash ? slash + 1 : argv[first]);
    if (cay_image_check_name(name, &err) < 0)
        return print_error(&err);
    auto_close int fd = open_archive(argv[first], &err);
    if (fd < 0 || cay_image_begin(name, max_bytes, &maker, &err) < 0)
        return print_error(&err);
    begin(&job, name, "importing an image", &watch);
    int rc = image_import(fd, from, &watch, maker, &left_out, &err);
    return end(&job, &watch, &engine, maker, rc, left_out, &err);
}

/* ---- export, remove ---- */

static int export_to(const char *name, const char *path, struct cay_error *err)
{
    auto_close int root_fd = -1, lock_fd = -1;

    if (cay_image_open(name, &root_fd, &lock_fd, err) < 0)
        return -1;
    if (strcmp(path, "-") == 0) {
        if (!isatty(STDOUT_FILENO))
            return archive_out(root_fd, STDOUT_FILENO, path, err);
        cay_fail(err, CAY_E_USAGE, "image export: not writing an archive to a terminal");
        return cay_hint(err, "use -o FILE, or a pipe");
    }
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return cay_fail_errno(err, errno, "open %.200s", path);
    return archive_out(root_fd, fd, path, err);
}

static int export(int argc, char **argv)
{
    static const char about[] =
        "Writes an image as a tar, which `docker import` takes too: to stdout, or to a file, and\n"
        "compressed if its name ends in .gz, .xz, .zst or .bz2.";
    static const char examples[] = "  cay image export python-node | docker import - python-node\n"
                                   "  cay image export python-node -o python-node.tar.zst\n";
    const char *path = "-";
    bool help = false;
    const struct opt opts[] = {
        { OPT_STR, 'o', "output", "FILE", "output file (stdout)", &path },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay image export [-o FILE] NAME", about, opts, examples);
    if (first + 1 < argc)
        return print_unexpected_argument("image export", argv[first + 1]);
    if (first == argc)
        return print_usage_error("`cay image list` lists them", "image export: which image?");
    signal(SIGPIPE, SIG_IGN); /* a reader that has left is an error like any other */
    return export_to(argv[first], path, &err) < 0 ? print_error(&err) : 0;
}

static int remove_images(int argc, char **argv)
{
    static const char about[] = "Removes images of your own. An image that a run uses is refused.";
    bool help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first, status = 0;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay image remove NAME …", about, opts, "  cay image remove mine\n");
    if (first == argc)
        return print_usage_error("`cay image list` lists them", "image remove: which one?");
    for (int i = first; i < argc; i++)
        if (cay_image_remove(argv[i], &err) < 0)
            status = print_error(&err);
    return status;
}

/* ---- which one ---- */

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} verbs[] = {
    { "build", build, "Build one from Debian packages" },
    { "list", image_list, "List them, or what can be built" },
    { "import", import, "Make one from a tar" },
    { "export", export, "Write one as a tar" },
    { "remove", remove_images, "Remove one" },
};

static int overview(void)
{
    auto_strbuf struct strbuf out = { 0 };

    strbuf_puts(&out, "Usage: cay image COMMAND [options]\n"
                      "\n"
                      "Root file systems that a run can have instead of this machine's own\n"
                      "runtimes: `cay run --image NAME`.\n"
                      "\n"
                      "Commands:\n");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        strbuf_printf(&out, "  %-8s %s\n", verbs[i].name, verbs[i].help);
    strbuf_puts(&out, "\n"
                      "Examples:\n"
                      "  sudo cay image build python-node\n"
                      "  cay image import rootfs.tar.gz mine\n"
                      "  cay run --image mine main.py\n"
                      "\n"
                      "See `cay image COMMAND --help` or `man cay-image` for more.\n");
    return print_text(strbuf_str(&out));
}

int cmd_image(int argc, char **argv)
{
    const char *names[ARRAY_LEN(verbs)];

    if (argc < 2)
        return overview(), 2;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return overview();
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
        names[i] = verbs[i].name;
    }
    const char *near = suggest(argv[1], names, ARRAY_LEN(names));
    char hint[96] = "build, list, import, export or remove";
    if (near)
        snprintf(hint, sizeof hint, "did you mean `cay image %s`?", near);
    return print_usage_error(hint, "image: unknown command '%s'", argv[1]);
}
