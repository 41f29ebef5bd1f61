/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SipHash-1-3 (Aumasson and Bernstein, 2012; fewer rounds as in Rust and Python): a keyed hash for
 * tables of names that somebody else chose. Without the key nobody can choose names that meet in
 * one place, which would make a table as slow as a list.
 *
 *     struct siphash_key key = siphash_new_key();          one for each table
 *     uint64_t hash = siphash(&key, name, len);
 *
 * Where each beginning of a long name is looked up, a state is kept instead, so that all of them
 * together cost as much as the whole:
 *
 *     struct siphash_state state = siphash_begin(&key);
 *     siphash_add(&state, name, part_len);
 *     uint64_t hash = siphash_end(&state);                 as often as one likes, and then goes on
 *
 * No proof of anything: base/digest.h is for that.
 */

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t words[2];
};

struct siphash_state {
    uint64_t v[4];
    uint64_t tail; /* bytes that make no word yet */
    uint64_t len;
};

struct siphash_key siphash_new_key(void); /* random */

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

struct siphash_state siphash_begin(const struct siphash_key *key);
void siphash_add(struct siphash_state *state, const void *data, size_t len);
uint64_t siphash_end(const struct siphash_state *state); /* of all that was added so far */
