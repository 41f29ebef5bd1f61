/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-zygote-php: libphp with the extensions and settings of php's command line, loaded once. Each
 * run is a request of its own, with what the command line adds to one: errors shown on stdout,
 * STDIN, STDOUT and STDERR, $argv, three functions.
 *
 * Nothing can be loaded ahead but extensions, which are in php.ini: what a file defines ends with
 * the request that it was included in. So modules to preload are not for this zygote.
 */
#include <main/php.h>
#include <main/php_main.h>
#include <main/php_variables.h>
#include <main/SAPI.h>
#include <Zend/zend_constants.h>
#include <Zend/zend_signal.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/native/prewarm/zygote.h"

#define PHP_FOLDER "/etc/php/8.2/cli"

static struct zygote_run run;

/* ---- what the command line is to PHP ---- */

static size_t write_out(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = write(STDOUT_FILENO, text + at, len - at);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0) {
            EG(exit_status) = 255;
            php_handle_aborted_connection();
            break;
        }
        at += (size_t)n;
    }
    return at;
}

static void flush_out(void *context)
{
    (void)context;
    if (fflush(stdout) == EOF && errno == EBADF)
        php_handle_aborted_connection();
}

static int start_module(sapi_module_struct *module)
{
    return php_module_startup(module, NULL);
}

static int end_request(void)
{
    fflush(stdout);
    return SUCCESS;
}

static int take_header(sapi_header_struct *header, sapi_header_op_enum op,
                       sapi_headers_struct *headers)
{
    (void)header;
    (void)op;
    (void)headers;
    return 0;
}

static int send_headers(sapi_headers_struct *headers)
{
    (void)headers;
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static void send_header(sapi_header_struct *header, void *context)
{
    (void)header;
    (void)context;
}

static char *read_cookies(void)
{
    return NULL;
}

static void put_variables(zval *list)
{
    static const char *const names[] = { "PHP_SELF", "SCRIPT_NAME", "SCRIPT_FILENAME",
                                         "PATH_TRANSLATED" };

    php_import_environment_variables(list);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        php_register_variable(names[i], run.argv[1], list);
    php_register_variable("DOCUMENT_ROOT", "", list);
}

static void log_message(const char *message, int level)
{
    (void)level;
    fprintf(stderr, "%s\n", message);
}

static void default_settings(HashTable *settings)
{
    zval on;

    ZVAL_NEW_STR(&on, zend_string_init("1", 1, 1));
    zend_hash_str_update(settings, "display_errors", strlen("display_errors"), &on);
}

/* Functions that only the command line has. The title stays within: what ps shows is the zygote's.
 */
static zend_string *title;

static PHP_FUNCTION(cli_set_process_title)
{
    zend_string *text;

    ZEND_PARSE_PARAMETERS_START(1, 1)
    Z_PARAM_STR(text)
    ZEND_PARSE_PARAMETERS_END();
    title = zend_string_dup(text, 1);
    RETURN_TRUE;
}

static PHP_FUNCTION(cli_get_process_title)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (title)
        RETURN_STRINGL(ZSTR_VAL(title), ZSTR_LEN(title));
    RETURN_EMPTY_STRING();
}

PHP_FUNCTION(dl); /* libphp's */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(dl_args, 0, 1, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, extension_filename, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(set_title_args, 0, 1, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, title, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(get_title_args, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()

static const zend_function_entry own_functions[] = { ZEND_FE(dl, dl_args) ZEND_FE(
    cli_set_process_title, set_title_args) ZEND_FE(cli_get_process_title, get_title_args)
                                                         ZEND_FE_END };

static const char fixed_settings[] = "html_errors=0\nregister_argc_argv=1\nimplicit_flush=1\n"
                                     "output_buffering=0\nmax_execution_time=0\n"
                                     "max_input_time=-1\n";

static char sapi_name[] = "cli", pretty_name[] = "Command Line Interface",
            program[] = "/usr/bin/php", folder[] = PHP_FOLDER;

static sapi_module_struct command_line = {
    .name = sapi_name,
    .pretty_name = pretty_name,
    .startup = start_module,
    .shutdown = php_module_shutdown_wrapper,
    .deactivate = end_request,
    .ub_write = write_out,
    .flush = flush_out,
    .sapi_error = php_error,
    .header_handler = take_header,
    .send_headers = send_headers,
    .send_header = send_header,
    .read_cookies = read_cookies,
    .register_server_variables = put_variables,
    .log_message = log_message,
    .ini_defaults = default_settings,
    .php_ini_ignore_cwd = 1,
    .phpinfo_as_text = 1,
    .php_ini_path_override = folder,
    .executable_location = program,
    .additional_functions = own_functions,
};

/* libphp has its own folder in these. */
static void put_constant(const char *name, const char *value)
{
    zend_constant *constant = zend_hash_str_find_ptr(EG(zend_constants), name, strlen(name));

    if (constant)
        ZVAL_NEW_STR(&constant->value, zend_string_init(value, strlen(value), 1));
}

static void start_php(void)
{
    signal(SIGPIPE, SIG_IGN);
    zend_signal_startup();
    setenv("PHP_INI_SCAN_DIR", PHP_FOLDER "/conf.d", 1);
    sapi_startup(&command_line);
    command_line.ini_entries = strdup(fixed_settings);
    if (command_line.startup(&command_line) == FAILURE)
        exit(1);
    unsetenv("PHP_INI_SCAN_DIR");
    put_constant("PHP_CONFIG_FILE_PATH", PHP_FOLDER);
    put_constant("PHP_CONFIG_FILE_SCAN_DIR", PHP_FOLDER "/conf.d");
}

/* ---- a run ---- */

static void put_stream(const char *name, const char *path, const char *mode)
{
    php_stream *stream = php_stream_open_wrapper_ex(path, mode, 0, NULL, NULL);
    zend_constant constant;

    if (!stream) /* closed */
        return;
    stream->flags |= PHP_STREAM_FLAG_NO_RSCR_DTOR_CLOSE;
    php_stream_to_zval(stream, &constant.value);
    Z_CONSTANT_FLAGS(constant.value) = 0;
    constant.name = zend_string_init_interned(name, strlen(name), 0);
    zend_register_constant(&constant);
}

static void begin_request(void)
{
    SG(request_info).argc = run.argc - 1;
    SG(request_info).argv = run.argv + 1;
    SG(request_info).path_translated = run.argv[1];
    if (php_request_startup() == FAILURE)
        _exit(1);
    CG(skip_shebang) = 1;
    zend_register_bool_constant("PHP_CLI_PROCESS_TITLE", strlen("PHP_CLI_PROCESS_TITLE"), true, 0,
                                0);
    /* There before the program is read, which else would get it for naming it. */
    zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
    PG(during_request_startup) = 0;
}

/* PHP knows whether it opened these before, and then opens copies: once only, in the run itself. */
static void put_streams(void)
{
    put_stream("STDIN", "php://stdin", "rb");
    put_stream("STDOUT", "php://stdout", "wb");
    put_stream("STDERR", "php://stderr", "wb");
}

static int run_file(void)
{
    FILE *file = fopen(run.argv[1], "rb");
    zend_file_handle handle;
    volatile int status = 0;

    if (!file) {
        fprintf(stderr, "Could not open input file: %s\n", run.argv[1]);
        return 1;
    }
    zend_stream_init_fp(&handle, file, run.argv[1]);
    handle.primary_script = 1;
    zend_first_try
    {
        begin_request();
        put_streams();
        php_execute_script(&handle);
    }
    zend_end_try();
    status = EG(exit_status);
    zend_try
    {
        zend_destroy_file_handle(&handle);
        php_request_shutdown(NULL);
        status = EG(exit_status);
    }
    zend_end_try();
    return status;
}

/* A request before the run's: what PHP reaches for in one is copied then. Nothing of it is left. */
static void warm_child(void)
{
    static char name[] = "main.php";
    static char *argv[] = { name, name, NULL };
    extern char **environ;

    run = (struct zygote_run){ .argv = argv, .argc = 2, .env = environ };
    zend_first_try
    {
        begin_request();
        zend_eval_string("$f = fn($x) => [strlen((string)$x), sprintf('%d', $x)]; $f(1);"
                         "try { throw new Exception('warm'); } catch (Exception $e) {}",
                         NULL, "warm");
    }
    zend_end_try();
    php_request_shutdown(NULL);
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    start_php();
    zygote_serve(warm_child, &run);
    int status = run_file();
    zygote_leave(status);
}
