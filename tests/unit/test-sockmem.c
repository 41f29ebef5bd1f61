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

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "sys/sockmem.h"

/* What a netlink socket may hold by default, which each counts for where they are not listed. */
enum { EACH = 425984 };

/* So many sockets, of which so many are netlink's; the list has two, which hold 7000 bytes. */
static void put_sockets(const struct tmp_folder *place, unsigned all, unsigned netlink)
{
    char text[512];

    snprintf(text, sizeof text,
             "sockets: used %u\nTCP: inuse 0 orphan 0 tw 0 alloc 1 mem 0\nUDP: inuse 0 mem 0\n",
             all);
    tmp_folder_put(place, "self/net/sockstat", text);
    snprintf(text, sizeof text,
             "protocol  size sockets  memory press maxhdr  slab module     cl co di ac\n"
             "UNIX-STREAM 1152     20      -1   NI       0   yes  kernel      y  n  n  n\n"
             "NETLINK   1120   %u      -1   NI       0   no   kernel      n  n  n  n\n",
             netlink);
    tmp_folder_put(place, "self/net/protocols", text);
    tmp_folder_put(
        place, "self/net/netlink",
        "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
        "0000000000000000 0   0          00000000 0        0        0     2        0        3\n"
        "0000000000000000 0   4711       00000000 4000     1000     0     2        0        4\n"
        "0000000000000000 4   12         00000000 2000     0        0     2        0        5\n");
}

static uint64_t uncharged(const struct tmp_folder *place, uint64_t *ret_n)
{
    const struct sockmem sockmem = {
        .proc_fd = place->fd,
        .diag_fd = -1,
        .sockstat_fd = -1,
        .protocols_fd = -1,
        .socket_max = EACH,
    };

    return sockmem_uncharged(&sockmem, 1 << 20, ret_n);
}

static void test_few(void **state)
{
    const struct tmp_folder *place = *state;
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
    const struct tmp_folder *place = *state;
    const struct sockmem sockmem = {
        .proc_fd = place->fd,
        .diag_fd = -1,
        .sockstat_fd = -1,
        .protocols_fd = -1,
        .socket_max = EACH,
    };
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
        cmocka_unit_test_setup_teardown(test_few, tmp_folder_setup, tmp_folder_teardown),
        cmocka_unit_test_setup_teardown(test_many, tmp_folder_setup, tmp_folder_teardown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
