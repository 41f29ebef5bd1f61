/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/docker/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"
#include "base/strbuf.h"

enum { STREAM_STDOUT = 1 };

/* All windows of all execs, and what is beside them. */
enum { ATTACH_MAX = (WIRE_EXECS + 1) * WIRE_STREAM_N * 2 * WIRE_WINDOW };

static void keep(struct attach *attach, const char *data, size_t len)
{
    if (attach->head[0] != STREAM_STDOUT) {
        len = MIN(len, sizeof attach->words - 1 - attach->words_len);
        memcpy(attach->words + attach->words_len, data, len);
        attach->words_len += len;
        return;
    }
    if (attach->at > 0) { /* all frames that were whole are dealt with */
        memmove(attach->data, attach->data + attach->at, attach->len - attach->at);
        attach->len -= attach->at;
        attach->at = 0;
    }
    if (attach->len + len > attach->size) {
        attach->size = 2 * (attach->len + len);
        attach->data = mem_resize(attach->data, attach->size);
    }
    memcpy(attach->data + attach->len, data, len);
    attach->len += len;
}

static void take(struct attach *attach, const char *data, size_t len)
{
    while (len > 0) {
        if (attach->left == 0) {
            attach->head[attach->head_len++] = (uint8_t)*data++;
            len--;
            if (attach->head_len < sizeof attach->head)
                continue;
            attach->head_len = 0;
            attach->left = (uint32_t)attach->head[4] << 24 | (uint32_t)attach->head[5] << 16 |
                           (uint32_t)attach->head[6] << 8 | attach->head[7];
            continue;
        }
        size_t n = MIN(len, attach->left);
        keep(attach, data, n);
        attach->left -= (uint32_t)n;
        data += n;
        len -= n;
    }
}

void attach_init(struct attach *attach, int fd, const struct strbuf *rest)
{
    *attach = (struct attach){ .fd = fd, .hangup_fd = -1 };
    take(attach, strbuf_str(rest), rest->len);
}

void attach_done(struct attach *attach)
{
    close_fd(&attach->fd);
    free(attach->data);
    attach->data = NULL;
    attach->at = attach->len = attach->size = 0;
}

int attach_read(struct attach *attach)
{
    char data[64 << 10];
    ssize_t n;

    do
        n = recv(attach->fd, data, sizeof data, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    take(attach, data, (size_t)n);
    return n > 0;
}

int attach_next(struct attach *attach, struct wire_head *ret, const char **ret_data)
{
    size_t there = attach->len - attach->at;

    if (there < sizeof *ret)
        return 0;
    memcpy(ret, attach->data + attach->at, sizeof *ret);
    if (ret->kind < WIRE_TAKEN || ret->kind >= WIRE_KIND_N || ret->len > WIRE_PIECE ||
        (ret->exec >= WIRE_EXECS && ret->exec != WIRE_NO_EXEC))
        return -EPROTO;
    if (there < sizeof *ret + ret->len)
        return 0;
    *ret_data = attach->data + attach->at + sizeof *ret;
    attach->at += sizeof *ret + ret->len;
    return 1;
}

static int wait_for_room(struct attach *attach)
{
    struct pollfd list[] = {
        { .fd = attach->fd, .events = POLLIN | POLLOUT },
        { .fd = attach->hangup_fd, .events = POLLRDHUP },
    };
    const struct pollfd *room = &list[0];

    if (poll(list, ARRAY_LEN(list), -1) < 0)
        return errno == EINTR ? 0 : -errno;
    /* An init that neither reads nor ends must not keep its container from being removed. */
    if (list[1].revents)
        return -ECANCELED;
    if (room->revents & POLLIN) {
        int rc = attach_read(attach);
        if (rc <= 0)
            return rc < 0 ? rc : -EPIPE;
        return attach->len - attach->at > ATTACH_MAX ? -EPROTO : 0;
    }
    return room->revents & POLLOUT ? 0 : -EPIPE;
}

int attach_send(struct attach *attach, uint16_t kind, uint16_t exec, const void *data, size_t len)
{
    const struct wire_head head = { kind, exec, (uint32_t)len };
    struct iovec parts[] = {
        { (void *)(uintptr_t)&head, sizeof head },
        { (void *)(uintptr_t)data, len },
    };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_LEN(parts) };
    size_t left = sizeof head + len;

    while (left > 0) {
        ssize_t n = sendmsg(attach->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            int rc = wait_for_room(attach);
            if (rc < 0)
                return rc;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        left -= (size_t)n;
        for (size_t i = 0, gone = (size_t)n; i < ARRAY_LEN(parts); i++) {
            size_t part = MIN(gone, parts[i].iov_len);
            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            gone -= part;
        }
    }
    return 0;
}
