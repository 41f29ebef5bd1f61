/* SPDX-License-Identifier: Apache-2.0 */
/* net/address.h and net/url.h: where a stranger may have us connect to. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/auto.h"
#include "net/address.h"
#include "net/url.h"

/* The first and last address of what is not public, and the neighbours on both sides. */
static const struct {
    const char *address;
    const char *what; /* NULL: public */
} addresses[] = {
    { "0.0.0.0", "unspecified" },
    { "0.255.255.255", "unspecified" },
    { "1.0.0.0", NULL },
    { "9.255.255.255", NULL },
    { "10.0.0.0", "private" },
    { "10.255.255.255", "private" },
    { "11.0.0.0", NULL },
    { "100.63.255.255", NULL },
    { "100.64.0.0", "shared (carrier NAT)" },
    { "100.127.255.255", "shared (carrier NAT)" },
    { "100.128.0.0", NULL },
    { "126.255.255.255", NULL },
    { "127.0.0.0", "loopback" },
    { "127.0.0.1", "loopback" },
    { "127.255.255.255", "loopback" },
    { "128.0.0.0", NULL },
    { "169.253.255.255", NULL },
    { "169.254.0.0", "link-local" },
    { "169.254.169.254", "link-local" },
    { "169.255.0.0", NULL },
    { "172.15.255.255", NULL },
    { "172.16.0.0", "private" },
    { "172.31.255.255", "private" },
    { "172.32.0.0", NULL },
    { "192.0.0.1", "reserved" },
    { "192.0.1.0", NULL },
    { "192.0.2.1", "for documentation" },
    { "192.88.99.1", "reserved" },
    { "192.167.255.255", NULL },
    { "192.168.0.0", "private" },
    { "192.168.255.255", "private" },
    { "192.169.0.0", NULL },
    { "198.17.255.255", NULL },
    { "198.18.0.0", "for benchmarks" },
    { "198.19.255.255", "for benchmarks" },
    { "198.20.0.0", NULL },
    { "198.51.100.9", "for documentation" },
    { "203.0.113.9", "for documentation" },
    { "223.255.255.255", NULL },
    { "224.0.0.1", "multicast" },
    { "239.255.255.255", "multicast" },
    { "240.0.0.1", "reserved" },
    { "255.255.255.255", "reserved" },
    { "::", "unspecified" },
    { "::1", "loopback" },
    { "::2", "an IPv4 address in IPv6" },
    { "::127.0.0.1", "an IPv4 address in IPv6" },
    { "::8.8.8.8", "an IPv4 address in IPv6" },
    { "::ffff:127.0.0.1", "an IPv4 address in IPv6" },
    { "::ffff:8.8.8.8", "an IPv4 address in IPv6" },
    { "64:ff9b::7f00:1", "an IPv4 address in IPv6" },
    { "64:ff9b:1::7f00:1", "an IPv4 address in IPv6" },
    { "100::1", "reserved" },
    { "2001::1", "reserved" },
    { "2001:1ff::1", "reserved" },
    { "2001:200::1", NULL },
    { "2001:db7::1", NULL },
    { "2001:db8::1", "for documentation" },
    { "2001:db9::1", NULL },
    { "2002:7f00:1::", "an IPv4 address in IPv6" },
    { "2606:4700:4700::1111", NULL },
    { "2a00:1450::1", NULL },
    { "3ffe::1", NULL },
    { "3fff::1", "for documentation" },
    { "4000::1", "reserved" },
    { "fbff::1", "reserved" },
    { "fc00::1", "private" },
    { "fdff::1", "private" },
    { "fe00::1", "reserved" },
    { "fe80::1", "link-local" },
    { "febf::1", "link-local" },
    { "fec0::1", "private" },
    { "ff02::1", "multicast" },
    { "ffff::1", "multicast" },
};

static void test_addresses(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        struct sockaddr_in in = { .sin_family = AF_INET };
        struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
        struct sockaddr *address = (struct sockaddr *)&in6;
        char text[ADDRESS_TEXT_MAX];

        if (inet_pton(AF_INET, addresses[i].address, &in.sin_addr) == 1)
            address = (struct sockaddr *)&in;
        else
            assert_int_equal(inet_pton(AF_INET6, addresses[i].address, &in6.sin6_addr), 1);
        const char *what = address_not_public(address);
        if (!what != !addresses[i].what || (what && strcmp(what, addresses[i].what) != 0))
            fail_msg("%s: %s", addresses[i].address, what ? what : "public");
        address_text(address, text);
        if (address == (struct sockaddr *)&in)
            assert_string_equal(text, addresses[i].address);
        else
            assert_non_null(strchr(text, ':'));
    }
    struct sockaddr other = { .sa_family = AF_UNIX };
    assert_non_null(address_not_public(&other));
}

#define NO_ADDRESS "!its host is neither a name nor an address of four decimal numbers"

/* "HOST PORT AUTHORITY TARGET", with "s" before it for https; or what is wrong. */
static const struct {
    const char *text;
    const char *parts;
} urls[] = {
    { "http://a", "a 80 a /" },
    { "https://a", "s a 443 a /" },
    { "HTTP://A.Example:8080/X?y=%20", "a.example 8080 A.Example:8080 /X?y=%20" },
    { "http://a?b", "a 80 a /?b" },
    { "http://[::1]:80/", "::1 80 [::1]:80 /" },
    { "http://[2001:DB8::1]", "2001:db8::1 80 [2001:DB8::1] /" },
    { "http://127.0.0.1/../x", "127.0.0.1 80 127.0.0.1 /../x" },
    { "http://a./", "a. 80 a. /" },
    { "http://1a.0xg/", "1a.0xg 80 1a.0xg /" },
    { "http://1.a", "1.a 80 1.a /" },
    { "http://2130706433/", NO_ADDRESS },
    { "http://0x7F000001/", NO_ADDRESS },
    { "http://0x", NO_ADDRESS },
    { "http://127.1/", NO_ADDRESS },
    { "http://127.0.0.1./", NO_ADDRESS },
    { "http://0177.0.0.1/", NO_ADDRESS },
    { "http://127.0.0.0x1/", NO_ADDRESS },
    { "http://256.1.1.1/", NO_ADDRESS },
    { "http://1.2.3.4.5/", NO_ADDRESS },
    { "http://a.7/", NO_ADDRESS },
    { "http://0", NO_ADDRESS },
    { "http://.", NO_ADDRESS },
    { "http://.a", NO_ADDRESS },
    { "http://a..b", NO_ADDRESS },
    { "http://a..", NO_ADDRESS },
    { "", "!it does not begin with http:// or https://" },
    { "a", "!it does not begin with http:// or https://" },
    { "ftp://a", "!it does not begin with http:// or https://" },
    { "file:///etc/passwd", "!it does not begin with http:// or https://" },
    { "//a/", "!it does not begin with http:// or https://" },
    { "http:/a", "!it does not begin with http:// or https://" },
    { "gopher://a", "!it does not begin with http:// or https://" },
    { "http+unix://a", "!it does not begin with http:// or https://" },
    { "http://", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http:///x", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a:", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a:0", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a:99999", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a:80:80", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://[::1", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://[::1%25lo]/", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://[fe80::1%lo]/", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a%00.b/", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://a,b/", "!its host is not of the form NAME, NAME:PORT or [IPv6]:PORT" },
    { "http://u@a/", "!it holds a user name or password" },
    { "http://u:p@a/", "!it holds a user name or password" },
    { "http://a@b@c/", "!it holds a user name or password" },
    { "http://a\\@b/", "!its path holds characters that must be escaped, or a '#'" },
    { "http://a#@b/", "!its path holds characters that must be escaped, or a '#'" },
    { "http://a/#b", "!its path holds characters that must be escaped, or a '#'" },
    { "http://a/\"", "!its path holds characters that must be escaped, or a '#'" },
    { "http://a b/", "!it holds blanks, control bytes or bytes beyond ASCII" },
    { " http://a/", "!it holds blanks, control bytes or bytes beyond ASCII" },
    { "http://a/\r\nX: y", "!it holds blanks, control bytes or bytes beyond ASCII" },
    { "http://a\x7f/", "!it holds blanks, control bytes or bytes beyond ASCII" },
    { "http://\xc3\xbc/", "!it holds blanks, control bytes or bytes beyond ASCII" },
    { "http://\xef\xbc\x91/", "!it holds blanks, control bytes or bytes beyond ASCII" },
};

static void test_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct url url;
        const char *why = NULL;
        char parts[512];

        if (url_parse(urls[i].text, &url, &why) < 0)
            snprintf(parts, sizeof parts, "!%s", why);
        else
            snprintf(parts, sizeof parts, "%s%s %u %s %.200s", url.is_tls ? "s " : "", url.host,
                     url.port, url.authority, url.target);
        if (strcmp(parts, urls[i].parts) != 0)
            fail_msg("%s gave %s", urls[i].text, parts);
    }
}

static void test_long(void **state)
{
    char text[URL_MAX + 2];
    struct url url;
    const char *why = NULL;

    (void)state;
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "http://a?", 9);
    text[URL_MAX] = '\0';
    assert_int_equal(url_parse(text, &url, &why), 0);
    assert_int_equal(strlen(url.target), URL_MAX - 8 + 1);
    text[URL_MAX] = 'a';
    text[URL_MAX + 1] = '\0';
    assert_int_equal(url_parse(text, &url, &why), -EINVAL);

    memset(text, 'a', 500);
    memcpy(text, "http://", 7);
    text[7 + 253] = '\0';
    assert_int_equal(url_parse(text, &url, &why), 0);
    text[7 + 253] = 'a';
    text[7 + 254] = '\0';
    assert_int_equal(url_parse(text, &url, &why), -EINVAL);
    text[7 + 254] = 'a';
    assert_int_equal(url_parse(text, &url, &why), -EINVAL);
}

static void test_listed(void **state)
{
    static const char *const list[] = { "internal.example", "db:8080", "[::1]", "127.0.0.1:9" };
    static const struct {
        const char *text;
        bool is_listed;
    } rows[] = {
        { "http://internal.example/", true },
        { "https://INTERNAL.example:1/", true },
        { "http://db:8080/", true },
        { "http://db/", false },
        { "http://[::1]:5/", true },
        { "http://127.0.0.1:9/", true },
        { "http://127.0.0.1/", false },
        { "http://x.internal.example/", false },
        { "http://internal.example.x/", false },
    };
    struct url url;
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(url_parse(rows[i].text, &url, &why), 0);
        if (url_is_listed(&url, list, ARRAY_LEN(list)) != rows[i].is_listed)
            fail_msg("%s", rows[i].text);
    }
    assert_false(url_is_listed(&url, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_listed),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
