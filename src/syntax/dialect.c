/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/dialect.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "syntax/imports.h"

struct row {
    const char *type;
    enum role role;
    const char *a, *b;
};

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct row python_rows[] = {
    { "identifier", ROLE_NAME },
    { "string", ROLE_STRING },
    { "interpolation", ROLE_WITHIN },
    { "concatenated_string", ROLE_JOIN },
    { "binary_operator", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "await", ROLE_PAREN },
    { "attribute", ROLE_MEMBER, "object", "attribute" },
    { "subscript", ROLE_INDEX, "value", "subscript" },
    { "call", ROLE_CALL, "function", "arguments" },
    { "keyword_argument", ROLE_KEYWORD, "name", "value" },
    { "assignment", ROLE_ASSIGN, "left", "right" },
    { "named_expression", ROLE_ASSIGN, "name", "value" },
    { "augmented_assignment", ROLE_BIND, "left" },
    { "for_statement", ROLE_BIND, "left" },
    { "for_in_clause", ROLE_BIND, "left" },
    { "function_definition", ROLE_DEFINE, "name" },
    { "class_definition", ROLE_DEFINE, "name" },
    { "parameters", ROLE_BIND },
    { "lambda_parameters", ROLE_BIND },
    { "pattern_list", ROLE_LIST },
    { "tuple_pattern", ROLE_LIST },
    { "expression_list", ROLE_LIST },
    { "tuple", ROLE_LIST },
    { "list", ROLE_LIST },
    { "import_statement", ROLE_IMPORT },
    { "import_from_statement", ROLE_IMPORT },
    { 0 },
};

static const struct row javascript_rows[] = {
    { "identifier", ROLE_NAME },
    { "this", ROLE_NAME },
    { "import", ROLE_NAME },
    { "string", ROLE_STRING },
    { "template_string", ROLE_STRING },
    { "template_substitution", ROLE_WITHIN },
    { "binary_expression", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "sequence_expression", ROLE_PAREN },
    { "await_expression", ROLE_PAREN },
    { "non_null_expression", ROLE_PAREN },
    { "type_assertion", ROLE_PAREN },
    { "as_expression", ROLE_CAST },
    { "satisfies_expression", ROLE_CAST },
    { "spread_element", ROLE_PAREN },
    { "member_expression", ROLE_MEMBER, "object", "property" },
    { "subscript_expression", ROLE_INDEX, "object", "index" },
    { "call_expression", ROLE_CALL, "function", "arguments" },
    { "new_expression", ROLE_NEW, "constructor" },
    { "variable_declarator", ROLE_ASSIGN, "name", "value" },
    { "assignment_expression", ROLE_ASSIGN, "left", "right" },
    { "augmented_assignment_expression", ROLE_BIND, "left" },
    { "function_declaration", ROLE_DEFINE, "name" },
    { "class_declaration", ROLE_DEFINE, "name" },
    { "formal_parameters", ROLE_BIND },
    { "array", ROLE_LIST },
    { "array_pattern", ROLE_LIST },
    { "import_statement", ROLE_IMPORT },
    { "export_statement", ROLE_IMPORT },
    { 0 },
};

static const struct row ruby_rows[] = {
    { "identifier", ROLE_NAME },
    { "constant", ROLE_NAME },
    { "string", ROLE_STRING },
    { "simple_symbol", ROLE_RAW },
    { "interpolation", ROLE_WITHIN },
    { "chained_string", ROLE_JOIN },
    { "binary", ROLE_BINARY, "left", "right" },
    { "parenthesized_statements", ROLE_PAREN },
    { "scope_resolution", ROLE_MEMBER, "scope", "name" },
    { "call", ROLE_METHOD, "receiver", "method" },
    { "assignment", ROLE_ASSIGN, "left", "right" },
    { "method", ROLE_DEFINE, "name" },
    { "method_parameters", ROLE_BIND },
    { "block_parameters", ROLE_BIND },
    { "left_assignment_list", ROLE_LIST },
    { "array", ROLE_LIST },
    { "subshell", ROLE_SHELL },
    { 0 },
};

static const struct row php_rows[] = {
    { "name", ROLE_NAME },
    { "variable_name", ROLE_NAME },
    { "qualified_name", ROLE_PAREN },
    { "string", ROLE_RAW },
    { "encapsed_string", ROLE_STRING },
    { "binary_expression", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "argument", ROLE_ARGUMENT },
    { "function_call_expression", ROLE_CALL, "function", "arguments" },
    { "member_call_expression", ROLE_METHOD, "object", "name" },
    { "scoped_call_expression", ROLE_METHOD, "scope", "name" },
    { "object_creation_expression", ROLE_NEW },
    { "assignment_expression", ROLE_ASSIGN, "left", "right" },
    { "augmented_assignment_expression", ROLE_BIND, "left" },
    { "array_creation_expression", ROLE_LIST },
    { "array_element_initializer", ROLE_ARGUMENT },
    { "foreach_statement", ROLE_BIND },
    { "function_definition", ROLE_DEFINE, "name" },
    { "formal_parameters", ROLE_BIND },
    { "namespace_use_declaration", ROLE_IMPORT },
    { "shell_command_expression", ROLE_SHELL },
    { "include_expression", ROLE_IMPORT },
    { "include_once_expression", ROLE_IMPORT },
    { "require_expression", ROLE_IMPORT },
    { "require_once_expression", ROLE_IMPORT },
    { 0 },
};

static const struct row go_rows[] = {
    { "identifier", ROLE_NAME },
    { "package_identifier", ROLE_NAME },
    { "interpreted_string_literal", ROLE_STRING },
    { "raw_string_literal", ROLE_RAW },
    { "binary_expression", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "selector_expression", ROLE_MEMBER, "operand", "field" },
    { "call_expression", ROLE_CALL, "function", "arguments" },
    { "short_var_declaration", ROLE_ASSIGN, "left", "right" },
    { "var_spec", ROLE_ASSIGN, "name", "value" },
    { "const_spec", ROLE_ASSIGN, "name", "value" },
    { "assignment_statement", ROLE_BIND, "left" },
    { "function_declaration", ROLE_DEFINE, "name" },
    { "expression_list", ROLE_LIST },
    { "import_spec", ROLE_IMPORT },
    { 0 },
};

static const struct row c_rows[] = {
    { "identifier", ROLE_NAME },
    { "string_literal", ROLE_STRING },
    { "concatenated_string", ROLE_JOIN },
    { "parenthesized_expression", ROLE_PAREN },
    { "cast_expression", ROLE_PAREN },
    { "pointer_expression", ROLE_PAREN },
    { "field_expression", ROLE_MEMBER, "argument", "field" },
    { "qualified_identifier", ROLE_MEMBER, "scope", "name" },
    { "namespace_identifier", ROLE_NAME },
    { "call_expression", ROLE_CALL, "function", "arguments" },
    { "init_declarator", ROLE_ASSIGN, "declarator", "value" },
    { "assignment_expression", ROLE_ASSIGN, "left", "right" },
    { "preproc_def", ROLE_ASSIGN, "name", "value" },
    { "preproc_arg", ROLE_NAME },
    { "preproc_function_def", ROLE_MACRO, NULL, "value" },
    { "function_definition", ROLE_DEFINE, "declarator" },
    { "preproc_include", ROLE_IMPORT },
    { 0 },
};

static const struct row java_rows[] = {
    { "identifier", ROLE_NAME },
    { "type_identifier", ROLE_NAME },
    { "string_literal", ROLE_STRING },
    { "binary_expression", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "field_access", ROLE_MEMBER, "object", "field" },
    { "scoped_identifier", ROLE_MEMBER, "scope", "name" },
    { "method_invocation", ROLE_METHOD, "object", "name" },
    { "object_creation_expression", ROLE_NEW, "type" },
    { "variable_declarator", ROLE_ASSIGN, "name", "value" },
    { "assignment_expression", ROLE_BIND, "left" },
    { "class_declaration", ROLE_DEFINE, "name" },
    { "formal_parameters", ROLE_BIND },
    { "import_declaration", ROLE_IMPORT },
    { 0 },
};

static const struct row rust_rows[] = {
    { "identifier", ROLE_NAME },
    { "type_identifier", ROLE_NAME },
    { "string_literal", ROLE_STRING },
    { "raw_string_literal", ROLE_RAW },
    { "parenthesized_expression", ROLE_PAREN },
    { "scoped_identifier", ROLE_MEMBER, "path", "name" },
    { "scoped_type_identifier", ROLE_MEMBER, "path", "name" },
    { "field_expression", ROLE_MEMBER, "value", "field" },
    { "call_expression", ROLE_CALL, "function", "arguments" },
    { "let_declaration", ROLE_ASSIGN, "pattern", "value" },
    { "const_item", ROLE_ASSIGN, "name", "value" },
    { "function_item", ROLE_DEFINE, "name" },
    { "parameters", ROLE_BIND },
    { "use_declaration", ROLE_IMPORT },
    { 0 },
};

static const struct row lua_rows[] = {
    { "identifier", ROLE_NAME },
    { "string", ROLE_STRING },
    { "binary_expression", ROLE_BINARY, "left", "right" },
    { "parenthesized_expression", ROLE_PAREN },
    { "dot_index_expression", ROLE_MEMBER, "table", "field" },
    { "bracket_index_expression", ROLE_INDEX, "table", "field" },
    { "method_index_expression", ROLE_MEMBER, "table", "method" },
    { "function_call", ROLE_CALL, "name", "arguments" },
    { "assignment_statement", ROLE_ASSIGN },
    { "variable_list", ROLE_LIST },
    { "expression_list", ROLE_LIST },
    { "function_declaration", ROLE_DEFINE, "name" },
    { "parameters", ROLE_BIND },
    { 0 },
};

static const struct row r_rows[] = {
    { "identifier", ROLE_NAME },
    { "string", ROLE_STRING },
    { "parenthesized_expression", ROLE_PAREN },
    { "namespace_operator", ROLE_MEMBER, "lhs", "rhs" },
    { "extract_operator", ROLE_MEMBER, "lhs", "rhs" },
    { "call", ROLE_CALL, "function", "arguments" },
    { "argument", ROLE_ARGUMENT },
    { "parameters", ROLE_BIND },
    { 0 },
};

static const struct row no_rows[] = { { 0 } };

static const struct row bash_rows[] = {
    { "command", ROLE_COMMAND },
    { "pipeline", ROLE_PIPELINE },
    { "redirected_statement", ROLE_REDIRECT },
    { "file_redirect", ROLE_REDIRECT, "descriptor", "destination" },
    { "variable_assignment", ROLE_ASSIGN, "name", "value" },
    { "variable_name", ROLE_NAME },
    { "command_name", ROLE_PAREN },
    { "word", ROLE_WORD },
    { "number", ROLE_WORD },
    { "string", ROLE_STRING },
    { "raw_string", ROLE_RAW },
    { "ansi_c_string", ROLE_ANSI_C },
    { "concatenation", ROLE_JOIN },
    { "simple_expansion", ROLE_VARIABLE },
    { "expansion", ROLE_VARIABLE },
    { "command_substitution", ROLE_SUBSTITUTION },
    { "for_statement", ROLE_BIND, "variable" },
    { 0 },
};

/* `a` is the code's own row table; the rest as dialect.h says. */
static const struct {
    struct dialect dialect;
    const struct row *rows;
} dialects[] = {
    { { .name = "python",
        .concat = "+",
        .separator = ".",
        .importers = WORDS("__import__", "importlib.import_module", "importlib.__import__",
                           "importlib.reload", "pkgutil.resolve_name"),
        .prefixes = WORDS("builtins.", "__builtins__.", "__builtins__.__dict__.", "sys.modules.",
                          "builtins.__dict__."),
        .suffixes = WORDS(".__call__", ".__wrapped__"),
        .getters = WORDS("getattr", "operator.attrgetter", "object.__getattribute__"),
        .evaluators = WORDS("eval", "exec", "compile", "timeit.timeit", "code.interact"),
        .import = imports_python },
      python_rows },
    { { .name = "javascript",
        .concat = "+",
        .separator = ".",
        .importers = WORDS("require", "import", "module.require", "process.mainModule.require",
                           "process.getBuiltinModule", "module._load", "module.createRequire.()"),
        .prefixes = WORDS("globalThis.", "global.", "window.", "self.", "this."),
        .suffixes = WORDS(".call", ".apply", ".bind"),
        .getters = WORDS("Reflect.get"),
        .evaluators = WORDS("eval", "Function", "AsyncFunction", "setTimeout", "setInterval",
                            "vm.runInThisContext", "vm.runInNewContext", "vm.runInContext",
                            "vm.Script", "vm.compileFunction", "*.constructor"),
        .import = imports_javascript },
      javascript_rows },
    { { .name = "typescript",
        .concat = "+",
        .separator = ".",
        .importers = WORDS("require", "import", "module.require", "process.mainModule.require",
                           "process.getBuiltinModule", "module._load", "module.createRequire.()"),
        .prefixes = WORDS("globalThis.", "global.", "window.", "self.", "this."),
        .suffixes = WORDS(".call", ".apply", ".bind"),
        .getters = WORDS("Reflect.get"),
        .evaluators = WORDS("eval", "Function", "AsyncFunction", "setTimeout", "setInterval",
                            "vm.runInThisContext", "vm.runInNewContext", "vm.runInContext",
                            "vm.Script", "vm.compileFunction", "*.constructor"),
        .import = imports_javascript },
      javascript_rows },
    { { .name = "ruby",
        .concat = "+",
        .separator = ".",
        .importers = WORDS("require", "load", "require_relative", "const_get"),
        .prefixes = WORDS("Kernel.", "Object.", "::"),
        .suffixes = WORDS(".call"),
        .evaluators = WORDS("eval", "*.eval", "*.instance_eval", "*.class_eval", "*.module_eval",
                            "instance_eval", "class_eval", "module_eval") },
      ruby_rows },
    { { .name = "php",
        .concat = ".",
        .separator = ".",
        .importers = WORDS("dl"),
        .prefixes = WORDS("\\"),
        .suffixes = WORDS(".__invoke"),
        .evaluators = WORDS("eval", "assert", "create_function"),
        .evaluated = "<?php ",
        .names_by_string = true,
        .is_caseless = true,
        .import = imports_php },
      php_rows },
    { { .name = "go",
        .concat = "+",
        .separator = ".",
        .has_flat_imports = true,
        .import = imports_go },
      go_rows },
    { { .name = "c", .separator = ".", .prefixes = WORDS("std."), .import = imports_c }, c_rows },
    { { .name = "cpp", .separator = ".", .prefixes = WORDS("std."), .import = imports_c }, c_rows },
    { { .name = "java",
        .concat = "+",
        .separator = ".",
        .prefixes = WORDS("java.lang."),
        .import = imports_java },
      java_rows },
    { { .name = "rust", .separator = "::", .import = imports_rust }, rust_rows },
    { { .name = "lua",
        .concat = "..",
        .separator = ".",
        .importers = WORDS("require"),
        .prefixes = WORDS("_G.", "_ENV.", "package.loaded."),
        .getters = WORDS("rawget"),
        .evaluators = WORDS("load", "loadstring") },
      lua_rows },
    { { .name = "r",
        .separator = ".",
        .importers = WORDS("library", "require", "requireNamespace", "loadNamespace"),
        .prefixes = WORDS("base."),
        .evaluators = WORDS("parse", "str2lang", "str2expression"),
        .names_by_string = true },
      r_rows },
    /* SQLite's SQL and the grammar's are not the same: half of what runs does not parse. */
    { { .name = "sql", .separator = ".", .is_by_words = true }, no_rows },
    { { .name = "bash", .separator = "", .is_shell = true }, bash_rows },
};

static TSFieldId field(const TSLanguage *language, const char *name)
{
    return name ? ts_language_field_id_for_name(language, name, (uint32_t)strlen(name)) : 0;
}

void roles_make(struct arena *arena, const struct grammar *grammar, struct roles *ret)
{
    const struct row *rows = NULL;

    *ret =
        (struct roles){ .n = grammar->language ? ts_language_symbol_count(grammar->language) : 0 };
    for (size_t i = 0; i < ARRAY_LEN(dialects); i++)
        if (strcmp(dialects[i].dialect.name, grammar->name) == 0) {
            ret->dialect = &dialects[i].dialect;
            rows = dialects[i].rows;
        }
    static const struct dialect plain = { .name = "", .separator = "." };
    if (!rows) {
        ret->dialect = &plain;
        rows = no_rows;
    }
    ret->rows = arena_alloc(arena, ret->n * sizeof *ret->rows);
    ret->arguments = grammar->language ? field(grammar->language, "arguments") : 0;
    /* More than one symbol can have one name: all of them are the same to us. */
    for (uint32_t symbol = 0; symbol < ret->n; symbol++) {
        const char *name = ts_language_symbol_name(grammar->language, (TSSymbol)symbol);
        bool is_named =
            ts_language_symbol_type(grammar->language, (TSSymbol)symbol) == TSSymbolTypeRegular;
        for (const struct row *row = rows; is_named && row->type; row++)
            if (strcmp(row->type, name) == 0)
                ret->rows[symbol] =
                    (struct node_role){ (uint8_t)row->role, field(grammar->language, row->a),
                                        field(grammar->language, row->b) };
    }
}
