/* SPDX-License-Identifier: Apache-2.0 */
/* What sockets hold, read from a /proc of our own making. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "sys/rmtree.h"
#include "sys/sockmem.h"

/* What a netlink socket may hold by default, which each counts for where they are not listed. */
enum { EACH = 425984 };

struct place {
    char top[64];
    int fd;
};

static int setup(void **state)
{
    struct place *place = mem_alloc(sizeof *place);

    snprintf(place->top, sizeof place->top, "/tmp/cay-test-sockmem-XXXXXX");
    assert_non_null(mkdtemp(place->top));
    place->fd = open(place->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->fd >= 0);
    assert_int_equal(mkdirat(place->fd, "self", 0700), 0);
    assert_int_equal(mkdirat(place->fd, "self/net", 0700), 0);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    close(place->fd);
    assert_int_equal(rmtree_at(AT_FDCWD, place->top, INT64_MAX), 0);
    free(place);
    return 0;
}

static void put(const struct place *place, const char *name, const char *text)
{
    char path[64];

    snprintf(path, sizeof path, "self/net/%s", name);
    auto_close int fd = openat(place->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* So many sockets, of which so many are netlink's; the list has two, which hold 7000 bytes. */
static void put_sockets(const struct place *place, unsigned all, unsigned netlink)
{
    char text[512];

    snprintf(text, sizeof text,
             "sockets: used %u\nTCP: inuse 0 orphan 0 tw 0 alloc 1 mem 0\nUDP: inuse 0 mem 0\n",
             all);
    put(place, "sockstat", text);
    snprintf(text, sizeof text,
             "protocol  size sockets  memory press maxhdr  slab module     cl co di ac\n"
             "UNIX-STREAM 1152     20      -1   NI       0   yes  kernel      y  n  n  n\n"
             "NETLINK   1120   %u      -1   NI       0   no   kernel      n  n  n  n\n",
             netlink);
    put(place, "protocols", text);
    put(place, "netlink",
        "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
        "0000000000000000 0   0          00000000 0        0        0     2        0        3\n"
        "0000000000000000 0   4711       00000000 4000     1000     0     2        0        4\n"
        "0000000000000000 4   12         00000000 2000     0        0     2        0        5\n");
}

static uint64_t uncharged(const struct place *place, uint64_t *ret_n)
{
    const struct sockmem sockmem = { .proc_fd = place->fd, .diag_fd = -1, .socket_max = EACH };

    return sockmem_uncharged(&sockmem, 1 << 20, ret_n);
}

static void test_few(void **state)
{
    const struct place *place = *state;
    uint64_t n;

    put_sockets(place, 0, 0);
    assert_int_equal(uncharged(place, &n), 0);
    assert_int_equal(n, 0);
    put_sockets(place, 2, 2);
    assert_int_equal(uncharged(place, &n), 7000);
    assert_int_equal(n, 2);
    put_sockets(place, 5000, 256); /* many others are no reason not to list these */
    assert_int_equal(uncharged(place, &n), 7000);
    assert_int_equal(n, 5000);
}

/* The kernel takes the square of their number to list them, which a program may have thousands of
 * for that purpose: they are not listed, and count for the most. */
static void test_many(void **state)
{
    const struct place *place = *state;
    const struct sockmem sockmem = { .proc_fd = place->fd, .diag_fd = -1, .socket_max = EACH };
    struct sockmem_use use;
    uint64_t n;

    put_sockets(place, 257, 257);
    assert_int_equal(uncharged(place, &n), UINT64_C(257) * EACH);
    assert_int_equal(n, 257);
    put_sockets(place, 9000, 8000);
    assert_int_equal(uncharged(place, &n), UINT64_C(8000) * EACH);
    sockmem_look(&sockmem, 1 << 20, &use);
    assert_int_equal(use.bytes, UINT64_C(8000) * EACH);
    assert_int_equal(use.n, 9000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_few, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
