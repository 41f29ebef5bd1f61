/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/outbox.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "warden/message.h"

struct outbox_entry {
    struct outbox_entry *next;
    struct warden_reply reply;
};

static void drop_first(struct outbox *outbox)
{
    struct outbox_entry *first = outbox->head;

    outbox->head = first->next;
    if (!outbox->head)
        outbox->tail = NULL;
    free(first);
}

int outbox_send(struct outbox *outbox, int fd, const struct warden_reply *reply)
{
    int rc = outbox->head ? -EAGAIN : message_send_reply(fd, reply);

    if (rc != -EAGAIN)
        return rc;
    struct outbox_entry *entry = mem_alloc(sizeof *entry);
    entry->reply = *reply;
    if (outbox->tail)
        outbox->tail->next = entry;
    else
        outbox->head = entry;
    outbox->tail = entry;
    return 0;
}

int outbox_try(const struct outbox *outbox, int fd, const struct warden_reply *reply)
{
    int rc = outbox->head ? -EAGAIN : message_send_reply(fd, reply);

    return rc == -EAGAIN ? 0 : rc;
}

int outbox_flush(struct outbox *outbox, int fd)
{
    while (outbox->head) {
        int rc = message_send_reply(fd, &outbox->head->reply);
        if (rc < 0)
            return rc == -EAGAIN ? 0 : rc;
        drop_first(outbox);
    }
    return 0;
}

void outbox_done(struct outbox *outbox)
{
    while (outbox->head)
        drop_first(outbox);
}
