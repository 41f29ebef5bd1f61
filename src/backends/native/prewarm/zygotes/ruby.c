/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-zygote-ruby FEATURE...: libruby, started as `ruby main.rb` is, up to where that would read
 * its script: the gems are there by then, and the script's file is open. Runs of Ruby are forked
 * from there, by what Ruby takes for the fork of its own, and so does all that has to be done after
 * one; each puts its own script in the place of the open file and goes on.
 *
 * A script of another name, or one that can't be read, or with gems of its own, is left to an exec
 * of the real ruby.
 */
#include <ruby.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/native/prewarm/zygote.h"
#include "sys/spawn.h"

#define SCRIPT "main.rb" /* the language's source */
#define HOOK   "cay_zygote"

/* Where the socket to the warden waits until Ruby has the numbers that it has elsewhere. */
enum { ASIDE_FD = 900, EVENT_FDS = 2 };

static struct {
    struct zygote_run run;
    char **features;
    int n_features;
    int script_fd;   /* -1 before Ruby opened it */
    bool is_to_fork; /* the next fork is ours */
    pid_t (*fork)(void);
} zygote = { .script_fd = -1 };

/* ---- what Ruby calls: these come before those of the C library ---- */

/* Something to open and to look at the first byte of. */
static int make_script(void)
{
    int fd = memfd_create(SCRIPT, MFD_CLOEXEC);

    if (fd < 0 || write(fd, "\n", 1) != 1 || lseek(fd, 0, SEEK_SET) < 0)
        _exit(1);
    return fd;
}

#define FOR_RUBY __attribute__((visibility("default")))

FOR_RUBY int open_for_ruby(const char *path, int flags, ...) __asm__("open");
FOR_RUBY pid_t fork_for_ruby(void) __asm__("fork");

int open_for_ruby(const char *path, int flags, ...)
{
    va_list list;

    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (zygote.script_fd < 0 && strcmp(path, SCRIPT) == 0)
        return zygote.script_fd = make_script();
    return openat(AT_FDCWD, path, flags, mode);
}

static void warm_up(void)
{
    rb_eval_string("kind = Class.new { def f(x) = x.map { |i| i.to_s * 2 } }\n"
                   "begin; kind.new.f([1, 2.5, 'a', :b]).nope; rescue NoMethodError => e\n"
                   "e.message; e.backtrace; end\n"
                   "format('%d %s', 1, { a: 1 }); $stdout.flush; $stderr.flush\n");
    rb_set_errinfo(Qnil);
}

/* The fds that Ruby is going to close were closed with all others. */
static void hold_place_of_event_fds(void)
{
    for (int i = 0; i < EVENT_FDS; i++)
        open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Ruby has looked at the first bytes, and so at whether there is a script, a mark of its encoding,
 * or a first line with options. */
static bool is_usual_script(void)
{
    char line[256];

    if (strcmp(zygote.run.argv[1], SCRIPT) != 0)
        return false;
    FILE *file = fopen(SCRIPT, "re");
    char *has_line = file ? fgets(line, sizeof line, file) : NULL;
    if (file)
        fclose(file);
    if (!has_line || line[0] == '\xef')
        return false;
    if (strncmp(line, "#!", 2) != 0)
        return true;
    const char *end = strstr(line, "ruby\n");
    return end && strstr(line, "ruby") == end;
}

/* Where the user's are was settled when Ruby started. */
static bool has_own_gems(void)
{
    return zygote.run.has_home || getenv("XDG_DATA_HOME");
}

pid_t fork_for_ruby(void)
{
    if (!zygote.is_to_fork)
        return zygote.fork();
    zygote.is_to_fork = false;
    dup2(ASIDE_FD, ZYGOTE_FD);
    close(ASIDE_FD);
    zygote_serve(warm_up, &zygote.run);
    if (has_own_gems() || !is_usual_script()) {
        spawn_exec(zygote.run.argv, zygote.run.env, SPAWN_SYSTEM_PATH);
        _exit(127);
    }
    hold_place_of_event_fds();
    return 0;
}

/* ---- Ruby's side ---- */

static void put_script(void)
{
    int fd = open(SCRIPT, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        _exit(127);
    if (fd != zygote.script_fd) {
        dup3(fd, zygote.script_fd, O_CLOEXEC);
        close(fd);
    }
}

static void put_arguments(void)
{
    VALUE argv = rb_gv_get("$*");

    for (int i = 2; i < zygote.run.argc; i++)
        rb_ary_push(argv, rb_obj_freeze(rb_external_str_new_cstr(zygote.run.argv[i])));
}

static VALUE load_one(VALUE name)
{
    return rb_funcall(rb_mKernel, rb_intern("require"), 1, name);
}

/* Programs that want what can't be loaded will say so themselves. */
static void load_features(void)
{
    for (int i = 0; i < zygote.n_features; i++) {
        int failed = 0;
        rb_protect(load_one, rb_str_new_cstr(zygote.features[i]), &failed);
        rb_set_errinfo(Qnil);
    }
}

/* The user's folder is the first of these where there is his home, as there is in a sandbox. */
static void put_gem_folder(void)
{
    rb_eval_string("if defined?(Gem) && !Gem.path.include?(Gem.user_dir)\n"
                   "  Gem.path.unshift(Gem.user_dir)\n"
                   "  Gem::Specification.dirs.unshift(File.join(Gem.user_dir, 'specifications'))\n"
                   "end\n");
}

/* What features made to draw from, as Random.new, has one seed for all runs: those whose seed was
 * drawn itself, and so is long. In a list that no program finds. */
static VALUE find_randoms(void)
{
    if (zygote.n_features == 0)
        return Qnil;
    return rb_obj_hide(rb_eval_string("ObjectSpace.each_object(Random).select { |random|\n"
                                      "  random.seed.bit_length > 64 && !random.frozen? }\n"));
}

static void reseed(VALUE randoms)
{
    if (NIL_P(randoms) || RARRAY_LEN(randoms) == 0)
        return;
    VALUE name = ID2SYM(rb_intern("initialize"));
    VALUE method = rb_funcall(rb_cRandom, rb_intern("instance_method"), 1, name);
    for (long i = 0; i < RARRAY_LEN(randoms); i++)
        rb_funcall(method, rb_intern("bind_call"), 1, rb_ary_entry(randoms, i));
}

static void fork_here(void)
{
    put_gem_folder();
    load_features();
    volatile VALUE randoms = find_randoms();
    warm_up();
    rb_eval_string("GC.start; GC.compact if GC.respond_to?(:compact)");
    rb_eval_string("ObjectSpace.each_object(File) { |f| f.rewind if f.path == '" SCRIPT "' }");
    zygote.is_to_fork = true;
    rb_funcall(rb_mProcess, rb_intern("fork"), 0);
    reseed(randoms);
    put_script();
    put_arguments();
}

/* The -r of the command line is the last thing before the script is read. A feature of that name
 * would be left in the list of those that are loaded; so this is a method of main's, and goes. */
static VALUE on_require(VALUE self, VALUE name)
{
    if (strcmp(StringValueCStr(name), HOOK) != 0)
        return rb_call_super(1, &name);
    rb_funcall(rb_singleton_class(self), rb_intern("remove_method"), 1,
               ID2SYM(rb_intern("require")));
    fork_here();
    return Qtrue;
}

static int run_ruby(int argc, char **argv)
{
    RUBY_INIT_STACK;
    ruby_init();
    rb_define_singleton_method(rb_eval_string("self"), "require", on_require, 1);
    return ruby_run_node(ruby_options(argc, argv));
}

int main(int argc, char **argv)
{
    char name[] = "ruby", feature[] = "-r" HOOK, script[] = SCRIPT;
    char *words[] = { name, feature, script, NULL }, **list = words;
    int n = 3;

    zygote.fork = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    zygote.features = argv + 1;
    zygote.n_features = argc - 1;
    if (dup3(ZYGOTE_FD, ASIDE_FD, O_CLOEXEC) < 0)
        return 1;
    close(ZYGOTE_FD);
    setlocale(LC_CTYPE, "");
    ruby_sysinit(&n, &list);
    int status = run_ruby(n, list);
    zygote_leave(status);
}
