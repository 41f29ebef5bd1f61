/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Members of a JSON object, as the commands print them. */

#include <jansson.h>

/* A string; NULL where there is none. */
static inline const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A string, or what is printed in its place. */
static inline const char *text_or(json_t *object, const char *key, const char *fallback)
{
    const char *text = text_of(object, key);
    return text ? text : fallback;
}

/* A number, whole or not; 0 where there is none. */
static inline double number_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}
