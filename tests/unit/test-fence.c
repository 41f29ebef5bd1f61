/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/fence.h"

static void test_fences(void **state)
{
    static const struct {
        const char *text, *code, *language; /* code NULL: no fence */
    } rows[] = {
        { "```python\nprint(1)\n```\n", "print(1)\n", "python" },
        { "```\nprint(1)\n```", "print(1)\n", "" },
        { "\n \n```py\r\nprint(1)\r\n```\r\n\n", "print(1)\r\n", "py" },
        { "~~~js\nlet s = `a`;\n~~~", "let s = `a`;\n", "js" },
        { "```` c++\n```\n````", "```\n", "c++" },
        { "```python {.numbered}\nx\n```", "x\n", "python" },
        { "```python title=a.py\nx\n```  \n", "x\n", "python" },
        { "```python\nprint(1)\n", "print(1)\n", "python" }, /* cut off */
        { "```python", "", "python" },
        { "```\n```", "", "" },
        { "```go\ns := `a\n  ```\nb`\n```", "s := `a\n  ```\nb`\n", "go" },
        /* Not a fence, or not one alone. */
        { "", NULL, NULL },
        { "\n\n", NULL, NULL },
        { "print('```')\n", NULL, NULL },
        { "``\nx\n``", NULL, NULL },
        { "```print(1)```", NULL, NULL },
        { "Here it is:\n```python\nprint(1)\n```", NULL, NULL },
        { "```python\nprint(1)\n```\nThat is all.", NULL, NULL },
        { "```python\na\n```\n\n```python\nb\n```\n", NULL, NULL },
        { "    ```\n    x\n    ```", NULL, NULL },
    };

    (void)state;
    assert_false(fence_find((struct bytes){ NULL, 0 }).is_there);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        /* On the heap, so that a sanitizer sees what is read past the end. */
        size_t len = strlen(rows[i].text);
        char *text = malloc(len + 1);
        memcpy(text, rows[i].text, len);
        char *exact = realloc(text, len ? len : 1);
        struct fence fence = fence_find((struct bytes){ exact, len });
        const char *code = rows[i].code ? rows[i].code : rows[i].text;
        assert_int_equal(fence.is_there, rows[i].code != NULL);
        assert_int_equal(fence.code.len, strlen(code));
        assert_memory_equal(fence.code.data, code, strlen(code));
        if (rows[i].language) {
            assert_int_equal(fence.language.len, strlen(rows[i].language));
            assert_memory_equal(fence.language.data, rows[i].language, fence.language.len);
        }
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_fences) };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
