/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-zygote-python MODULE...: libpython, started and with the modules of its list loaded, from
 * which runs of Python are forked. A run behaves as `python3 FILE` does, but for the hash seed and
 * the address layout, which the runs of one zygote share.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Who asked to be called at a fork is nowhere else to be seen. */
#define Py_BUILD_CORE
#include <internal/pycore_interp.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/prewarm/zygote.h"
#include "sys/spawn.h"

#define PYTHON "/usr/bin/python3"

/* Found once, in the zygote. */
static struct {
    PyObject *loader;         /* the class of __loader__ */
    PyObject *exit_functions; /* calls what was registered by atexit */
    PyObject *main_module;    /* of the run */
    PyObject *main_names[2];  /* what it is called, and what a worker of multiprocessing calls it */
    PyObject *closed, *flush; /* names: a lookup by one that was just made misses Python's cache */
    PyObject *numpy_random;   /* NULL: not loaded */
    PyObject *processes;      /* of multiprocessing; the same */
    char *usual_program;      /* what short programs do */
    bool is_reseeded;         /* before the run was there */
    bool has_to_know;         /* of a fork */
    bool was_interrupted;
} python;

static void must(PyStatus status)
{
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

static void start_python(void)
{
    PyConfig config;
    char name[] = PYTHON, *argv[] = { name };

    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    must(PyConfig_SetBytesString(&config, &config.program_name, PYTHON));
    must(PyConfig_SetBytesString(&config, &config.executable, PYTHON));
    must(PyConfig_SetBytesArgv(&config, 1, argv));
    must(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

#ifdef CAY_PYTHON_INSIDE
/* Whether python3 is what was linked in: of the same day and time. An update would not reach us. */
static bool is_of_this_host(void)
{
    char info[64];
    bool is_same = false;
    int fd = open(PYTHON, O_RDONLY | O_CLOEXEC);
    struct stat st;

    snprintf(info, sizeof info, "%s", Py_GetBuildInfo()); /* "main, Oct  7 2026, 12:35:07" */
    char *time = strrchr(info, ',');
    if (fd < 0 || fstat(fd, &st) < 0 || !time)
        return false;
    *time = '\0';
    time += 2;
    const char *day = strrchr(info, ',');
    void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file != MAP_FAILED) {
        is_same = day && memmem(file, (size_t)st.st_size, day + 2, strlen(day + 2) + 1) &&
                  memmem(file, (size_t)st.st_size, time, strlen(time) + 1);
        munmap(file, (size_t)st.st_size);
    }
    close(fd);
    return is_same;
}
#else
static bool is_of_this_host(void)
{
    return true;
}
#endif

/* Runs words of ours. A failure ends the process: there is no such Python then. */
static void run_words(const char *words)
{
    if (PyRun_SimpleString(words) < 0)
        exit(1);
}

static PyObject *find(const char *module, const char *name)
{
    PyObject *found = PyImport_ImportModule(module);

    if (found)
        found = PyObject_GetAttrString(found, name);
    if (!found)
        exit(1);
    return found;
}

/* ---- in the run ---- */

static int set_list(const char *name, int n, char **words)
{
    PyObject *list = PyList_New(n);

    for (int i = 0; list && i < n; i++) {
        PyObject *word = PyUnicode_DecodeFSDefault(words[i]);
        if (!word)
            return -1;
        PyList_SET_ITEM(list, i, word);
    }
    int rc = list ? PySys_SetObject(name, list) : -1;
    Py_XDECREF(list);
    return rc;
}

#define FOLDER "/sandbox/"

/* The path as python3 sees it: without links and dots, as a file of the job's has none. */
static const char *real_source(const struct zygote_run *run, char buf[PATH_MAX])
{
    const char *name = run->argv[1];

    if (!run->source || strchr(name, '/') || strlen(name) >= PATH_MAX - sizeof FOLDER)
        return realpath(name, buf) ? buf : name;
    snprintf(buf, PATH_MAX, FOLDER "%s", name);
    return buf;
}

/* The folder of the script goes before all others. */
static int put_folder(const char *source)
{
    const char *slash = strrchr(source, '/');
    PyObject *path = PySys_GetObject("path"); /* borrowed */
    PyObject *folder = PyUnicode_DecodeFSDefaultAndSize(
        source, slash ? (slash == source ? 1 : slash - source) : 0);
    int rc = path && folder ? PyList_Insert(path, 0, folder) : -1;

    Py_XDECREF(folder);
    return rc;
}

/* os.environ was made from the zygote's. */
static int put_environment(char **env)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *data = os ? PyObject_GetAttrString(os, "environ") : NULL;
    PyObject *map = data ? PyObject_GetAttrString(data, "_data") : NULL;
    int rc = map && PyDict_Check(map) ? 0 : -1;

    if (rc == 0)
        PyDict_Clear(map);
    for (; rc == 0 && *env; env++) {
        const char *value = strchr(*env, '=');
        if (!value)
            continue;
        PyObject *key = PyBytes_FromStringAndSize(*env, value - *env);
        PyObject *text = PyBytes_FromString(value + 1);
        rc = key && text ? PyDict_SetItem(map, key, text) : -1;
        Py_XDECREF(key);
        Py_XDECREF(text);
    }
    Py_XDECREF(map);
    Py_XDECREF(data);
    Py_XDECREF(os);
    return rc;
}

/* The key that a program and its workers know each other by: made when multiprocessing is loaded.
 */
static int renew_key(void)
{
    char key[32];

    if (!python.processes)
        return 0;
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    PyObject *process = PyObject_CallMethod(python.processes, "current_process", NULL);
    PyObject *bytes = PyBytes_FromStringAndSize(key, sizeof key);
    int rc = process && bytes ? PyObject_SetAttrString(process, "authkey", bytes) : -1;

    Py_XDECREF(bytes);
    Py_XDECREF(process);
    return rc;
}

/* What is random and a fork does not make anew by itself. */
static int reseed(void)
{
    if (python.numpy_random) {
        PyObject *done = PyObject_CallMethod(python.numpy_random, "seed", NULL);
        Py_XDECREF(done);
        if (!done)
            return -1;
    }
    return renew_key();
}

/* ---- running ---- */

/* multiprocessing, where it is loaded, has it by a second name, as what it makes elsewhere refers
 * to it. */
static int set_main(PyObject *module)
{
    PyObject *modules = PyImport_GetModuleDict();

    for (size_t i = 0; i < sizeof python.main_names / sizeof *python.main_names; i++)
        if ((i == 0 || PyDict_GetItem(modules, python.main_names[i])) &&
            PyDict_SetItem(modules, python.main_names[i], module) < 0)
            return -1;
    return 0;
}

/* One of its own: the zygote's is out of the collector's sight, and so would be all that holds a
 * program's functions and classes in cycles. The names are in the order in which python3 sets them.
 */
static PyObject *make_main(void)
{
    PyObject *made = PyModule_New("__main__");
    PyObject *globals = made ? PyModule_GetDict(made) : NULL;
    PyObject *notes = PyDict_New();
    bool is_made =
        globals && notes && PyDict_SetItemString(globals, "__annotations__", notes) == 0 &&
        PyDict_SetItemString(globals, "__builtins__", PyImport_AddModule("builtins")) == 0 &&
        set_main(made) == 0;

    Py_XDECREF(notes);
    if (!is_made)
        _exit(1);
    return made;
}

/* Where python3 looks whether the script is a folder or an archive. */
static int note_source(const char *source)
{
    PyObject *cache = PySys_GetObject("path_importer_cache"); /* borrowed */

    return cache ? PyDict_SetItemString(cache, source, Py_None) : -1;
}

/* As python3 sets it for a script. */
static int set_loader(PyObject *globals, const char *source)
{
    PyObject *loader = PyObject_CallFunction(python.loader, "ss", "__main__", source);
    PyObject *file = PyUnicode_DecodeFSDefault(source);
    int rc = loader && file && PyDict_SetItemString(globals, "__loader__", loader) == 0 &&
                     PyDict_SetItemString(globals, "__file__", file) == 0 &&
                     PyDict_SetItemString(globals, "__cached__", Py_None) == 0
                 ? 0
                 : -1;

    Py_XDECREF(file);
    Py_XDECREF(loader);
    return rc;
}

/* Whether one of the first two lines may say that it is in another encoding. */
static bool has_encoding_line(const char *text)
{
    const char *end = strchr(text, '\n');
    end = end ? strchr(end + 1, '\n') : NULL;
    const char *said = strstr(text, "coding");

    return strncmp(text, "\xef\xbb\xbf", 3) == 0 || (said && (!end || said < end));
}

/* The whole source with a NUL behind it; NULL where it did not come with the job, has one in it, or
 * is better read by Python, line by line. */
static char *copy_source(const struct zygote_run *run)
{
    if (!run->source || memchr(run->source, '\0', run->source_len))
        return NULL;
    char *text = malloc(run->source_len + 1);
    if (!text)
        return NULL;
    memcpy(text, run->source, run->source_len);
    text[run->source_len] = '\0';
    if (!has_encoding_line(text))
        return text;
    free(text);
    return NULL;
}

/* The status of a SystemExit's code. */
static int status_of_code(PyObject *code)
{
    if (!code || code == Py_None)
        return 0;
    if (PyLong_Check(code)) {
        int status = (int)PyLong_AsLong(code);
        PyErr_Clear(); /* too large is -1 */
        return status;
    }
    PyObject *err = PySys_GetObject("stderr"); /* borrowed */
    PyErr_Clear();
    if (err && err != Py_None)
        PyFile_WriteObject(code, err, Py_PRINT_RAW);
    else
        PyObject_Print(code, stderr, Py_PRINT_RAW);
    PySys_WriteStderr("\n");
    return 1;
}

/* The status that an exception stands for: SystemExit's own, else it is printed and 1. */
static int status_of_exception(void)
{
    PyObject *type, *value, *trace;

    if (!PyErr_ExceptionMatches(PyExc_SystemExit)) {
        python.was_interrupted = PyErr_Occurred() == PyExc_KeyboardInterrupt;
        PyErr_Print();
        return 1;
    }
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *code = value ? PyObject_GetAttrString(value, "code") : NULL;
    int status = status_of_code(code);
    Py_XDECREF(code);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return status;
}

static int run_main(PyObject *globals, const struct zygote_run *run, const char *source)
{
    char *text = copy_source(run);
    FILE *file = text ? NULL : fopen(source, "rbe");
    PyObject *done = NULL;

    if (!text && !file) {
        fprintf(stderr, "python3: can't open file '%s': [Errno %d] %s\n", source, errno,
                strerror(errno));
        return 2;
    }
    if (file) {
        done = PyRun_FileExFlags(file, source, Py_file_input, globals, globals, 1, NULL);
    } else {
        PyObject *code = Py_CompileString(text, source, Py_file_input);
        free(text);
        done = code ? PyEval_EvalCode(code, globals, globals) : NULL;
        Py_XDECREF(code);
    }
    if (!done)
        return status_of_exception();
    Py_DECREF(done);
    return 0;
}

/* Whether it was closed; a stream that can't tell is not. */
static bool is_closed(PyObject *stream)
{
    PyObject *closed = PyObject_GetAttr(stream, python.closed);
    int is_true = closed ? PyObject_IsTrue(closed) : 0;

    PyErr_Clear();
    Py_XDECREF(closed);
    return is_true > 0;
}

/* As python3 does: what stdout lost is told, what stderr lost can't be. */
static int flush(const char *name, bool is_told)
{
    PyObject *stream = PySys_GetObject(name); /* borrowed */

    if (!stream || stream == Py_None || is_closed(stream))
        return 0;
    PyObject *done = PyObject_CallMethodNoArgs(stream, python.flush);
    if (done) {
        Py_DECREF(done);
        return 0;
    }
    if (is_told)
        PyErr_WriteUnraisable(stream);
    PyErr_Clear();
    return -1;
}

/* Waits for threads and calls what was registered, as taking down does first. */
static void run_exit_functions(void)
{
    PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *done = threading ? PyObject_CallMethod(threading, "_shutdown", NULL) : NULL;

    if (threading && !done)
        PyErr_WriteUnraisable(threading);
    Py_XDECREF(done);
    done = PyObject_CallNoArgs(python.exit_functions);
    if (!done)
        PyErr_WriteUnraisable(python.exit_functions);
    Py_XDECREF(done);
}

/* Ends as Py_RunMain does. Taking the whole interpreter down takes longer than most programs run:
 * where a program has loaded nothing beyond what was there, only what is its own is taken down, in
 * the same order. */
static int finish(int status, Py_ssize_t n_modules)
{
    PyObject *modules = PyImport_GetModuleDict();

    if (PyDict_Size(modules) > n_modules) {
        Py_DECREF(python.main_module);
        return Py_FinalizeEx() < 0 ? 120 : status;
    }
    run_exit_functions();
    bool is_bad = flush("stdout", true) < 0;
    is_bad = flush("stderr", false) < 0 || is_bad;
    static const char *const last[] = { "last_type", "last_value", "last_traceback" };
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        if (PySys_GetObject(last[i])) /* else there would be memory to be copied for it */
            PySys_SetObject(last[i], Py_None);
    set_main(Py_None);
    Py_DECREF(python.main_module);
    PyGC_Collect();
    flush("stdout", false);
    flush("stderr", false);
    return is_bad ? 120 : status;
}

/* What nobody caught ends python3 by the signal. */
static int end_by_interrupt(void)
{
    signal(SIGINT, SIG_DFL);
    kill(getpid(), SIGINT);
    return 128 + SIGINT;
}

/* Most runs are what the zygote has prepared: the same words, in the same order. */
static struct {
    char **env;
    bool has_words; /* of python3 main.py */
} ahead;

static bool has_same_env(char **env)
{
    if (!ahead.env)
        return false;
    size_t i = 0;
    while (ahead.env[i] && env[i] && strcmp(ahead.env[i], env[i]) == 0)
        i++;
    return !ahead.env[i] && !env[i];
}

#define USUAL_NAME   "main.py"
#define USUAL_SOURCE FOLDER USUAL_NAME

static bool has_usual_words(int argc, char **argv, const char *source)
{
    return ahead.has_words && argc == 2 && strcmp(argv[0], "python3") == 0 &&
           strcmp(argv[1], USUAL_NAME) == 0 && strcmp(source, USUAL_SOURCE) == 0;
}

static int put_words(int argc, char **argv, const char *source)
{
    return set_list("argv", argc - 1, argv + 1) < 0 || set_list("orig_argv", argc, argv) < 0 ||
                   put_folder(source) < 0 || note_source(source) < 0 ||
                   set_loader(PyModule_GetDict(python.main_module), source) < 0
               ? -1
               : 0;
}

/* What was put ahead is taken back. */
static int take_words_back(void)
{
    PyObject *cache = PySys_GetObject("path_importer_cache"); /* borrowed */

    ahead.has_words = false;
    return cache && PyDict_DelItemString(cache, USUAL_SOURCE) == 0
               ? PyList_SetSlice(PySys_GetObject("path"), 0, 1, NULL)
               : -1;
}

static int prepare_run(int argc, char **argv, char **env, const char *source)
{
    if (!has_same_env(env) && put_environment(env) < 0)
        return -1;
    if (has_usual_words(argc, argv, source))
        return 0;
    if (ahead.has_words && take_words_back() < 0)
        return -1;
    return put_words(argc, argv, source);
}

/* What short programs do. */
#define USUAL_PROGRAM                                                                           \
    "class C:\n    def f(self, x):\n        return x\n"                                         \
    "def f(*a, **k):\n    return [str(i) for i in a]\n"                                         \
    "try:\n    f(1, 2.5, C().f({'a': [1]}), 'a'.encode()).x\nexcept AttributeError as e:\n    " \
    "str(e)\n"

static void run_ours(const char *program)
{
    PyObject *globals = PyDict_New();

    if (globals && PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0 &&
        set_loader(globals, USUAL_SOURCE) == 0) {
        char *text = strdup(program); /* as a run's is */
        PyObject *code = Py_CompileString(text, USUAL_SOURCE, Py_file_input);
        PyObject *done = code ? PyEval_EvalCode(code, globals, globals) : NULL;
        Py_XDECREF(done);
        Py_XDECREF(code);
        free(text);
    }
    Py_XDECREF(globals);
    PyErr_Clear();
    flush("stdout", false);
    flush("stderr", false);
    PyGC_Collect();
}

/* threading, where it is loaded, keeps the number that its main thread had in the zygote. */
static void renew_thread_number(void)
{
    PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *done = thread ? PyObject_CallMethod(thread, "_set_native_id", NULL) : NULL;

    Py_XDECREF(done);
    Py_XDECREF(thread);
    PyErr_Clear();
}

/* What Python does after a fork is to make locks anew that other threads may have held, and to call
 * who asked for it. Modules of a list may have threads; else there is none. */
static void wake_up(void)
{
    if (!python.has_to_know) {
        PyThreadState_Get()->native_thread_id = PyThread_get_thread_native_id();
        return;
    }
    PyOS_AfterFork_Child();
    renew_thread_number();
}

/* Once more in the memory of its own: what it reaches for is copied then, and not when somebody
 * waits. So is what is taken down at the end, which is a new one here. */
static void warm_child(void)
{
    wake_up();
    python.is_reseeded = reseed() == 0; /* it is nobody else's from here on */
    PyErr_Clear();
    run_ours(python.usual_program);
    set_main(Py_None);
    Py_DECREF(python.main_module);
    python.main_module = make_main();
    if (set_loader(PyModule_GetDict(python.main_module), USUAL_SOURCE) < 0)
        _exit(1);
}

/* site.py has long looked for packages of the user's, what these want to be done, and his
 * usercustomize.py. */
static _Noreturn void start_afresh(const struct zygote_run *run)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    spawn_exec(run->argv, run->env, SPAWN_SYSTEM_PATH);
    _exit(127);
}

static int run_file(const struct zygote_run *run)
{
    char buf[PATH_MAX];
    const char *source = real_source(run, buf);

    if (run->has_home)
        start_afresh(run);
    if (prepare_run(run->argc, run->argv, run->env, source) < 0 ||
        (!python.is_reseeded && reseed() < 0)) {
        PyErr_Print();
        return 1;
    }
    Py_ssize_t n_modules = PyDict_Size(PyImport_GetModuleDict());
    int status = run_main(PyModule_GetDict(python.main_module), run, source);
    status = finish(status, n_modules);
    return python.was_interrupted ? end_by_interrupt() : status;
}

/* ---- in the zygote ---- */

static PyObject *find_loaded(const char *name)
{
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), name);

    Py_XINCREF(module);
    return module;
}

/* Whoever has a list of modules imports them first of all. Nothing is printed of one that fails:
 * nobody reads it, of a SystemExit that would end us, and sys.last_value would be every run's. */
static void load_modules(int n, char **names)
{
    size_t size = sizeof USUAL_PROGRAM "print(1)\n";

    for (int i = 0; i < n; i++)
        size += sizeof "import \n" + strlen(names[i]);
    python.usual_program = malloc(size);
    if (!python.usual_program)
        exit(1);
    char *end = stpcpy(python.usual_program, USUAL_PROGRAM "print(1)\n");
    for (int i = 0; i < n; i++) {
        PyObject *module = PyImport_ImportModule(names[i]);
        if (module)
            end = stpcpy(stpcpy(stpcpy(end, "import "), names[i]), "\n");
        else
            PyErr_Clear(); /* programs that want it will say so themselves */
        Py_XDECREF(module);
    }
    const PyInterpreterState *interpreter = PyInterpreterState_Get();
    python.has_to_know = n > 0 || interpreter->before_forkers || interpreter->after_forkers_child;
    python.loader = find("_frozen_importlib_external", "SourceFileLoader");
    python.exit_functions = find("atexit", "_run_exitfuncs");
    python.main_names[0] = PyUnicode_InternFromString("__main__");
    python.main_names[1] = PyUnicode_InternFromString("__mp_main__");
    python.closed = PyUnicode_InternFromString("closed");
    python.flush = PyUnicode_InternFromString("flush");
    python.numpy_random = find_loaded("numpy.random");
    python.processes = find_loaded("multiprocessing.process");
}

/* A program's first objects of each size would come from gaps between those that are there: two
 * pages to be copied, of a pool's head and of the gap. With the gaps filled, they are the first of
 * a new pool. */
static void fill_gaps(void)
{
    enum { POOL = 1 << 14, HEAD = 48, STEP = 16, LARGEST = 512, MOST = 1 << 16 };

    for (size_t size = STEP; size <= LARGEST; size += STEP)
        for (size_t n = 0; n < MOST / size; n++) {
            void *block = PyObject_Malloc(size);
            if ((uintptr_t)block % POOL == HEAD) {
                PyObject_Free(block);
                break;
            }
        }
}

/* What every program does is done once, so that it is warm, and everything that is there leaves the
 * collector's sight. What comes after that is the run's, and within it. */
static void warm_up(char **argv)
{
    extern char **environ;

    run_ours(USUAL_PROGRAM "print('', end='', flush=True)\n"); /* nobody is there to read */
    run_words("import gc, sys\n"
              "del gc.callbacks[:]\n"
              "gc.collect()\n"
              "gc.freeze()\n"
              "for name in ('gc', 'atexit'): del sys.modules[name]\n"
              "del gc, sys, name\n");
    python.main_module = make_main();
    if (put_environment(environ) < 0 || put_words(2, argv, USUAL_SOURCE) < 0)
        exit(1);
    ahead.env = environ;
    ahead.has_words = true;
    fill_gaps();
}

int main(int argc, char **argv)
{
    extern char **environ;
    char name[] = "python3", file[] = USUAL_NAME, *words[] = { name, file, NULL };
    struct zygote_run run = { .argc = 2, .argv = words, .env = environ };

    if (!is_of_this_host())
        return 1;
    start_python();
    load_modules(argc - 1, argv + 1);
    run.source = python.usual_program;
    run.source_len = strlen(run.source);
    warm_up(words);
    if (python.has_to_know)
        PyOS_BeforeFork();
    zygote_serve(warm_child, &run);
    zygote_leave(run_file(&run));
}
