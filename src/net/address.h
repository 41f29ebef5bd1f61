/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which addresses a stranger may have us talk to. A name says nothing: it can be made to resolve to
 * anything, so rules are on addresses, and the one that was judged has to be the one that is
 * connected to.
 */

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* "127.0.0.1", "::1", "/run/x.sock"; and room for it. */
enum { ADDRESS_TEXT_MAX = 112 };
void address_text(const struct sockaddr *address, char out[static ADDRESS_TEXT_MAX]);

/*
 * NULL for an address of the public internet, else what it is instead: "loopback", "private",
 * "link-local", … Forms of IPv6 that carry an IPv4 address (mapped, NAT64, 6to4, Teredo) are never
 * public: who gets the packet is decided elsewhere. Other families are not public either.
 */
const char *address_not_public(const struct sockaddr *address);
