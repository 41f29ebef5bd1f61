/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/native/berth-list.h"

static void push(struct berth_list *list, struct berth *berth)
{
    berth->next = list->first;
    list->first = berth;
    list->n++;
}

static struct berth *pop(struct berth_list *list)
{
    struct berth *berth = list->first;

    list->first = berth->next;
    list->n--;
    return berth;
}

bool berth_list_has(struct berth_list *list)
{
    while (list->first && !berth_is_young(list->first))
        berth_free(pop(list));
    return list->first;
}

struct berth *berth_list_make(struct berth_list *list, const struct backend_host *host,
                              int32_t language, bool is_lent)
{
    if (!list->has_kind && berth_kind_make(language, is_lent, &list->kind) < 0)
        return NULL;
    list->has_kind = true;
    struct berth *berth = berth_make(host, &list->kind);
    if (berth)
        push(list, berth);
    return berth;
}

struct berth *berth_list_take(struct berth_list *list)
{
    return berth_list_has(list) ? pop(list) : NULL;
}

void berth_list_keep(struct berth_list *list, struct berth *berth, unsigned most)
{
    if (list->n < most && berth_is_fresh(berth))
        push(list, berth);
    else
        berth_free(berth);
}

void berth_list_done(struct berth_list *list)
{
    while (list->first)
        berth_free(pop(list));
    berth_kind_done(&list->kind);
}
