/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between client and recorder: a packet for each question (struct history_query as it is), and for
 * each answer as many as it takes, each this with a part of the text behind it. A part without a
 * number has a struct history_report behind it, which nobody asked for. */

#include <stdint.h>

enum { HISTORY_PART_MAX = 32 * 1024, HISTORY_ANSWER_MAX = 512 << 20 };

struct history_part {
    uint32_t number; /* of the question */
    int32_t status;  /* of the answer: 0 or -errno */
    uint32_t is_last;
    uint32_t len; /* of what follows */
};
