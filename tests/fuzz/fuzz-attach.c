/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what an engine sends of a container's streams: each of the init's frames that comes
 * out lies within them and is of a kind and length that a frame can have; cut in two anywhere, the
 * same bytes give the same frames.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/docker/attach.h"
#include "base/auto.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* All frames up to the first that is none, behind each other. Returns whether there was such. */
static bool take_all(struct attach *attach, struct strbuf *ret)
{
    struct wire_head head;
    const char *body;
    int rc;

    while ((rc = attach_next(attach, &head, &body)) > 0) {
        must(head.kind >= WIRE_TAKEN && head.kind < WIRE_KIND_N && head.len <= WIRE_PIECE);
        must(head.exec < WIRE_EXECS || head.exec == WIRE_NO_EXEC);
        must(body >= attach->data && body + head.len <= attach->data + attach->len);
        strbuf_add(ret, (const char *)&head, sizeof head);
        strbuf_add(ret, body, head.len);
    }
    return rc < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_strbuf struct strbuf whole = { 0 }, first = { 0 }, at_once = { 0 }, in_two = { 0 };
    struct attach attach;
    int ends[2];

    if (size == 0 || size > 60000) /* what a socket takes without a reader */
        return 0;
    size_t cut = data[0] % size;
    strbuf_add(&whole, (const char *)data, size);
    strbuf_add(&first, (const char *)data, cut);
    attach_init(&attach, -1, &whole);
    take_all(&attach, &at_once);
    must(memchr(attach.words, '\0', sizeof attach.words));
    attach_done(&attach);

    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    must(write(ends[1], data + cut, size - cut) == (ssize_t)(size - cut));
    close(ends[1]);
    attach_init(&attach, ends[0], &first);
    bool is_broken = take_all(&attach, &in_two);
    while (!is_broken && attach_read(&attach) > 0)
        is_broken = take_all(&attach, &in_two);
    attach_done(&attach);
    must(in_two.len == at_once.len &&
         memcmp(strbuf_str(&in_two), strbuf_str(&at_once), in_two.len) == 0);
    return 0;
}
