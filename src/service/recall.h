/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Questions to the recorder, for those who wait for an answer. */

#include <stdbool.h>

#include "store/history-client.h"

struct ask;

/* -1: the recorder can't be asked just now; nothing is under way then. */
int recall_ask(struct ask *ask, struct history_query *query, history_answer_fn *answer);

/* Whether the answer is no failure, which the asker is told of. */
bool recall_is_found(struct ask *ask, int status);
