/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "http-transcript.h"

#define LEN(text)    text, sizeof(text) - 1
#define ASK(rest)    "GET / HTTP/1.1\r\n" rest "\r\n"
#define HOST(rest)   LEN(ASK("Host: a\r\n" rest))
#define POST(rest)   LEN("POST / HTTP/1.1\r\nHost: a\r\n" rest)
#define CHUNKS(rest) POST("Transfer-Encoding: chunked\r\n\r\n" rest)
#define OK1          "GET / [] +; "

struct row {
    const char *data;
    size_t len;
    const char *expected;
};

static const struct row requests[] = {
    /* what is taken */
    { HOST(""), OK1 },
    { LEN(""), "" },
    { LEN("GET /a/b?c=d HTTP/1.1\r\nHost: a\r\n\r\n"), "GET /a/b?c=d [] +; " },
    { LEN("GET / HTTP/1.0\r\n\r\n"), "GET / [] -; " },
    { LEN("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), OK1 },
    { LEN("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"), "GET / [] -; " },
    { HOST("Connection: close\r\n"), "GET / [] -; " },
    { HOST("Connection: x, CLOSE ,y\r\n"), "GET / [] -; " },
    { HOST("Connection: x\r\nConnection: close\r\n"), "GET / [] -; " },
    { HOST("Connection: closed\r\n"), OK1 },
    { HOST("X:\r\nY: \t \r\nZ:  a b \t\r\n"), OK1 },
    { HOST("X: \x80\xff\r\n"), OK1 },
    { HOST("X: a\tb\r\n"), OK1 },
    { HOST("!#$%&'*+-.^_`|~09azAZ: x\r\n"), OK1 },
    { LEN(ASK("host:A.b-c_d.:8080\r\n")), OK1 },
    { LEN(ASK("Host: [::1]:80\r\n")), OK1 },
    { LEN(ASK("Host:\r\n")), OK1 },
    { LEN("FROB / HTTP/1.1\r\nHost: a\r\n\r\n"), "FROB / [] +; " },
    { LEN("get / HTTP/1.1\r\nHost: a\r\n\r\n"), "get / [] +; " },
    { LEN("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "OPTIONS * [] +; " },
    { LEN("GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n"), "GET http://a/x [] +; " },
    { LEN("GET HTTPS://A:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), "GET HTTPS://A:1 [] +; " },
    { LEN("GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n"), "GET http://a?x [] +; " },
    { LEN("GET /?a[]={x}|^`\\ HTTP/1.1\r\nHost: a\r\n\r\n"), "GET /?a[]={x}|^`\\ [] +; " },
    { LEN("GET /%2e%2E/..//;a=b@c HTTP/1.1\r\nHost: a\r\n\r\n"), "GET /%2e%2E/..//;a=b@c [] +; " },
    { LEN("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), OK1 },
    { POST("Content-Length: 5\r\n\r\nhello"), "POST / [hello] +; " },
    { POST("Content-Length: 0\r\n\r\n"), "POST / [] +; " },
    { POST("Content-Length:\t5 \r\n\r\nhello"), "POST / [hello] +; " },
    { POST("\r\n"), "POST / [] +; " },
    { LEN("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"), "GET / [hi] +; " },
    { LEN("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi"), "POST / [hi] -; " },
    { POST("Content-Length: 2\r\n\r\n\r\n"), "POST / [\r\n] +; " },
    { POST("Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"), "POST / [hi] +; " },
    { LEN("GET / HTTP/1.0\r\nExpect: anything\r\n\r\n"), "GET / [] -; " },
    { CHUNKS("0\r\n\r\n"), "POST / [] +; " },
    { CHUNKS("5\r\nhello\r\n0\r\n\r\n"), "POST / [hello] +; " },
    { CHUNKS("1\r\nh\r\n0004\r\nello\r\n000\r\n\r\n"), "POST / [hello] +; " },
    { CHUNKS("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"),
      "POST / [01234567890123456789] +; " },
    { CHUNKS("2\r\n\r\n\r\n0\r\n\r\n"), "POST / [\r\n] +; " },
    { CHUNKS("1;a\r\nx\r\n0;b=c;d=\"e;\\\"f\"\r\n\r\n"), "POST / [x] +; " },
    { CHUNKS("0\r\nChecksum: 1\r\nX:\r\n\r\n"), "POST / [] +; " },
    { POST("transfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n"), "POST / [] +; " },
    /* one after another */
    { LEN(ASK("Host: a\r\n") ASK("Host: a\r\n")), OK1 OK1 },
    { POST("Content-Length: 2\r\n\r\nhi" ASK("Host: a\r\n")), "POST / [hi] +; " OK1 },
    { POST("Content-Length: 2\r\n\r\nhi\r\n" ASK("Host: a\r\n")), "POST / [hi] +; " OK1 },
    { CHUNKS("1\r\nx\r\n0\r\n\r\n" ASK("Host: a\r\n")), "POST / [x] +; " OK1 },
    { LEN(ASK("Host: a\r\n") "GARBAGE\r\n\r\n"), OK1 "!400 the request line has no target" },
    /* streams that end too early */
    { LEN("G"), "!400 the stream ends within a message" },
    { LEN("\r"), "!400 the stream ends within a message" },
    { LEN("\r\n"), "" },
    { LEN("GET / HTTP/1.1\r\nHost: a\r\n"), "!400 the stream ends within a message" },
    { LEN("GET / HTTP/1.1\r\nHost: a\r\n\r"), "!400 the stream ends within a message" },
    { POST("Content-Length: 3\r\n\r\nhi"), "POST / [hi!400 the stream ends within a message" },
    { POST("Content-Length: 3\r\n\r\n"), "POST / [!400 the stream ends within a message" },
    { CHUNKS(""), "POST / [!400 the stream ends within a message" },
    { CHUNKS("5\r\nhello\r\n0\r\n"), "POST / [hello!400 the stream ends within a message" },
    { CHUNKS("5\r\nhel"), "POST / [hel!400 the stream ends within a message" },
    /* request line */
    { LEN("GET /\r\n\r\n"), "!400 the request line has no version" },
    { LEN("GET / \r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the request line has no version" },
    { LEN(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the method is not a token" },
    { LEN("G\"T / HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the method is not a token" },
    { LEN("G\x80T / HTTP/1.1\r\nHost: a\r\n\r\n"), "!400 the method is not a token" },
    { LEN("GET / http/1.1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET / HTTP/1,1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET / HTTP/1\r\nHost: a\r\n\r\n"), "!400 the version is not of the form HTTP/1.1" },
    { LEN("GET / HTTP/1.2\r\n"), "!505 only HTTP/1.1 and HTTP/1.0 are supported" },
    { LEN("GET / HTTP/0.9\r\n"), "!505 only HTTP/1.1 and HTTP/1.0 are supported" },
    { LEN("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "!505 only HTTP/1.1 and HTTP/1.0 are supported" },
    { LEN("\x16\x03\x01"), "!400 a control byte" },
    { LEN("\r\n\r\nGET / HTTP/1.1\r\n"), "!400 an empty line in place of a message" },
    { LEN("\nGET / HTTP/1.1\r\n"), "!400 a line ends with LF alone" },
    { LEN("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"), "!501 CONNECT is not supported" },
    { LEN("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n"), "!501 the method is too long" },
    /* target */
    { LEN("GET * HTTP/1.1\r\n"), "!400 the target '*' without OPTIONS" },
    { LEN("GET a HTTP/1.1\r\n"), "!400 the target is neither a path nor an http address" },
    { LEN("GET a:80 HTTP/1.1\r\n"), "!400 the target is neither a path nor an http address" },
    { LEN("GET ?a HTTP/1.1\r\n"), "!400 the target is neither a path nor an http address" },
    { LEN("GET ftp://a/ HTTP/1.1\r\n"), "!400 the target is neither a path nor an http address" },
    { LEN("GET \\a HTTP/1.1\r\n"), "!400 the target is neither a path nor an http address" },
    { LEN("GET /a#b HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /?a#b HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET http://a#b HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /\x80 HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /a\\b HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /<b> HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /?\"b\" HTTP/1.1\r\n"),
      "!400 the target holds characters that must be escaped, or a '#'" },
    { LEN("GET /a\0b HTTP/1.1\r\n"), "!400 a control byte" },
    { LEN("GET /a\x7f HTTP/1.1\r\n"), "!400 a control byte" },
    { LEN("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
      "!400 the target's host is not the one in Host" },
    { LEN("GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n"),
      "!400 the target's host is not the one in Host" },
    { LEN("GET http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n"),
      "!400 the target's host is not the one in Host" },
    { LEN("GET http:///x HTTP/1.1\r\nHost:\r\n\r\n"),
      "!400 the target's host is not the one in Host" },
    { LEN("GET http://a/ HTTP/1.0\r\n\r\n"), "!400 the target's host is not the one in Host" },
    /* line ends */
    { LEN("GET / HTTP/1.1\nHost: a\n\n"), "!400 a line ends with LF alone" },
    { LEN("GET / HTTP/1.1\r\nHost: a\n\r\n"), "!400 a line ends with LF alone" },
    { LEN("GET / HTTP/1.1\r\nHost: a\r\n\n"), "!400 a line ends with LF alone" },
    { LEN("GET / HTTP/1.1\rHost: a\r\n\r\n"), "!400 a CR without LF" },
    { LEN("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"), "!400 a CR without LF" },
    { HOST("X: a\rb\r\n"), "!400 a CR without LF" },
    { HOST("X: a\r\r\n"), "!400 a CR without LF" },
    { HOST("X: a\n Y: b\r\n"), "!400 a line ends with LF alone" },
    /* fields */
    { LEN(ASK(" Host: a\r\n")),
      "!400 a line begins with a blank (folded lines are not supported)" },
    { LEN(ASK(" \r\nHost: a\r\n")),
      "!400 a line begins with a blank (folded lines are not supported)" },
    { HOST("X: a\r\n b\r\n"), "!400 a line begins with a blank (folded lines are not supported)" },
    { HOST("X: a\r\n\tb\r\n"), "!400 a line begins with a blank (folded lines are not supported)" },
    { HOST("X : a\r\n"), "!400 the name of a field is not a token" },
    { HOST("X\t: a\r\n"), "!400 the name of a field is not a token" },
    { HOST("X Y: a\r\n"), "!400 the name of a field is not a token" },
    { HOST(": a\r\n"), "!400 the name of a field is not a token" },
    { HOST("X(: a\r\n"), "!400 the name of a field is not a token" },
    { HOST("\x80: a\r\n"), "!400 the name of a field is not a token" },
    { HOST("X\r\n"), "!400 a field without colon" },
    { HOST("X\0: a\r\n"), "!400 a control byte" },
    { HOST("X: a\0b\r\n"), "!400 a control byte" },
    { HOST("X: \x0b\r\n"), "!400 a control byte" },
    { HOST("X: \x1b[2J\r\n"), "!400 a control byte" },
    { HOST("X: \x7f\r\n"), "!400 a control byte" },
    { HOST("Authorization: Bearer a\r\nauthorization: Bearer b\r\n"), "!400 Authorization twice" },
    { HOST("Origin: http://a\r\nORIGIN: http://a\r\n"), "!400 Origin twice" },
    { HOST("Content-Type: a/b\r\nContent-Type: a/b\r\n"), "!400 Content-Type twice" },
    { HOST("Last-Event-ID: 1\r\nLast-Event-ID: 2\r\n"), "!400 Last-Event-ID twice" },
    /* host */
    { LEN(ASK("")), "!400 Host is missing" },
    { HOST("Host: a\r\n"), "!400 Host twice" },
    { HOST("host: b\r\n"), "!400 Host twice" },
    { LEN("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), "!400 Host twice" },
    { LEN(ASK("Host: a, b\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a b\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: u@a\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a/b\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: http://a\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a:\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a:0\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a:65536\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: a:8x\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: [::1\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: [::g]\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    { LEN(ASK("Host: ::1\r\n")), "!400 Host is not of the form NAME or NAME:PORT" },
    /* lengths */
    { POST("Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi"), "!400 Content-Length twice" },
    { POST("Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi"), "!400 Content-Length twice" },
    { POST("Content-Length: 2, 2\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 2,3\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: +2\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: -2\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 0x2\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 02\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 2.0\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 2 2\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 2;\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 1_0\r\n\r\nhi"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length:\r\n\r\n"), "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: \xef\xbc\x92\r\n\r\n"),
      "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 18446744073709551618\r\n\r\nhi"),
      "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 1000000000000000000\r\n\r\nhi"),
      "!400 Content-Length is not one decimal number" },
    { POST("Content-Length: 999999999999999999\r\n\r\nhi"), "POST / [!413 the body is too long" },
    { POST("Content-Length: 65\r\n\r\n"), "POST / [!413 the body is too long" },
    /* codings */
    { POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      "!400 Content-Length and Transfer-Encoding together" },
    { POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
      "!400 Content-Length and Transfer-Encoding together" },
    { POST("Transfer-Encoding: x\r\nContent-Length: 5\r\n\r\n"),
      "!400 Content-Length and Transfer-Encoding together" },
    { POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
      "!400 Transfer-Encoding twice" },
    { POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"),
      "!400 Transfer-Encoding twice" },
    { POST("Transfer-Encoding: gzip, chunked\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: chunked, chunked\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: chunked, identity\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: identity\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: xchunked\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: \"chunked\"\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: chunked;q=1\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: , chunked\r\n\r\n"),
      "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding:\r\n\r\n"), "!400 the only Transfer-Encoding supported is chunked" },
    { POST("Transfer-Encoding: \x0b"
           "chunked\r\n\r\n"),
      "!400 a control byte" },
    { POST("Transfer-Encoding : chunked\r\n\r\n"), "!400 the name of a field is not a token" },
    { POST("Transfer-Encoding\r\n : chunked\r\n\r\n"), "!400 a field without colon" },
    { POST("Transfer-Encoding:\r\n chunked\r\n\r\n"),
      "!400 a line begins with a blank (folded lines are not supported)" },
    { LEN("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      "!400 Transfer-Encoding in HTTP/1.0" },
    /* chunks */
    { CHUNKS("\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("g\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("0x5\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("+5\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("-1\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("5 \r\nhello"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS(" 5\r\nhello"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("5 ;a\r\nhello"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("5,a\r\nhello"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("1_0\r\n"), "POST / [!400 the size of a chunk is not one hexadecimal number" },
    { CHUNKS("0000000000000005\r\nhello"), "POST / [!400 the size of a chunk is too long" },
    { CHUNKS("FFFFFFFFFFFFFFFF\r\n"), "POST / [!400 the size of a chunk is too long" },
    { CHUNKS("10000000000000005\r\nhello"), "POST / [!400 the size of a chunk is too long" },
    { CHUNKS("FFFFFFFFFFFFFFF\r\n"), "POST / [!413 the body is too long" },
    { CHUNKS("41\r\n"), "POST / [!413 the body is too long" },
    { CHUNKS("3\r\nabc\r\n3e\r\n"), "POST / [abc!413 the body is too long" },
    { CHUNKS("5\nhello\r\n"), "POST / [!400 a line ends with LF alone" },
    { CHUNKS("5\rhello\r\n"), "POST / [!400 a CR without LF" },
    { CHUNKS("5\r\nhello\n0\r\n\r\n"), "POST / [hello!400 a chunk is longer than its size" },
    { CHUNKS("5\r\nhello\r0\r\n\r\n"), "POST / [hello!400 a chunk is longer than its size" },
    { CHUNKS("5\r\nhello0\r\n\r\n"), "POST / [hello!400 a chunk is longer than its size" },
    { CHUNKS("5\r\nhello!!\r\n"), "POST / [hello!400 a chunk is longer than its size" },
    { CHUNKS("5;\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5;a=\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5;a b\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5; a\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5;a=\"b\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5;a=\"b\\\r\nhello"), "POST / [!400 a chunk extension is malformed" },
    { CHUNKS("5;a\nX\r\nhello"), "POST / [!400 a line ends with LF alone" },
    { CHUNKS("5;a\0\r\nhello"), "POST / [!400 a control byte" },
    { CHUNKS("0\r\n\n"), "POST / [!400 a line ends with LF alone" },
    { CHUNKS("0\r\nX\r\n\r\n"), "POST / [!400 a field without colon" },
    { CHUNKS("0\r\n X: a\r\n\r\n"),
      "POST / [!400 a line begins with a blank (folded lines are not supported)" },
    { CHUNKS("0\r\nContent-Length: 5\r\n\r\n"),
      "POST / [!400 a field that is not allowed as a trailer" },
    { CHUNKS("0\r\ntransfer-encoding: chunked\r\n\r\n"),
      "POST / [!400 a field that is not allowed as a trailer" },
    { CHUNKS("0\r\nHost: b\r\n\r\n"), "POST / [!400 a field that is not allowed as a trailer" },
    { CHUNKS("0\r\nAuthorization: Bearer x\r\n\r\n"),
      "POST / [!400 a field that is not allowed as a trailer" },
    { CHUNKS("0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "POST / [!400 a field without colon" },
    /* expectations */
    { HOST("Expect: 200-ok\r\n"), "!417 the only expectation supported is 100-continue" },
    { HOST("Expect:\r\n"), "!417 the only expectation supported is 100-continue" },
    { HOST("Expect: 100-continue\r\nExpect: 100-continue\r\n"), "!400 Expect twice" },
};

#define ANSWER(rest) LEN("HTTP/1.1 200 OK\r\n" rest)

static const struct row responses[] = {
    { LEN(""), "" },
    { ANSWER("Content-Length: 2\r\n\r\nhi"), "200 [hi] +; " },
    { ANSWER("Content-Length: 2\r\nConnection: close\r\n\r\nhi"), "200 [hi] -; " },
    { LEN("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "200 [hi] -; " },
    { LEN("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), "200 [] +; " },
    { LEN("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"), "200 [] +; " },
    { LEN("HTTP/1.1 404 Nicht \xc3\xbc"
          "ber\tall\r\nContent-Length: 0\r\n\r\n"),
      "404 [] +; " },
    { ANSWER("Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "200 [hi] +; " },
    { ANSWER("\r\nto the end"), "200 [to the end] -; " },
    { ANSWER("\r\n"), "200 [] -; " },
    { ANSWER("Content-Length: 0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), "200 [] +; 204 [] +; " },
    { LEN("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), "204 [] +; " },
    { LEN("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"), "304 [] +; " },
    { LEN("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
      "200 [x] +; " },
    { LEN("HTTP/1.1 100 Continue\r\n\r\n"), "!502 the stream ends within a message" },
    { LEN("HTTP/1.1 101 Switching\r\n\r\n"), "!502 an interim response that was not asked for" },
    { LEN("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
          "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
          "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"),
      "!502 an interim response that was not asked for" },
    { ANSWER("Content-Length: 3\r\n\r\nhi"), "200 [hi!502 the stream ends within a message" },
    { ANSWER("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
      "!502 Content-Length and Transfer-Encoding together" },
    { ANSWER("Content-Length: 2\r\nContent-Length: 2\r\n\r\n"), "!502 Content-Length twice" },
    { ANSWER("Content-Length: 2,2\r\n\r\n"), "!502 Content-Length is not one decimal number" },
    { ANSWER("Transfer-Encoding: gzip, chunked\r\n\r\n"),
      "!502 the only Transfer-Encoding supported is chunked" },
    { LEN("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
      "!502 Transfer-Encoding in HTTP/1.0" },
    { ANSWER("Content-Length: 65\r\n\r\n"), "200 [!502 the body is too long" },
    { ANSWER("\r\n"
             "0123456789012345678901234567890123456789012345678901234567890123+"),
      "200 [0123456789012345678901234567890123456789012345678901234567890123"
      "!502 the body is too long" },
    { ANSWER("X: a\r\n b\r\n\r\n"),
      "!502 a line begins with a blank (folded lines are not supported)" },
    { LEN("\r\nHTTP/1.1 200 OK\r\n\r\n"), "!502 an empty line in place of a message" },
    { LEN("HTTP/1.1 200 OK\nX: a\n\n"), "!502 a line ends with LF alone" },
    { LEN("HTTP/1.1  200 OK\r\n\r\n"), "!502 the status is not between 100 and 599" },
    { LEN("HTTP/1.1 600 OK\r\n\r\n"), "!502 the status is not between 100 and 599" },
    { LEN("HTTP/1.1 099 OK\r\n\r\n"), "!502 the status is not between 100 and 599" },
    { LEN("HTTP/1.1 20 OK\r\n\r\n"), "!502 the status is not between 100 and 599" },
    { LEN("HTTP/1.1 2000 OK\r\n\r\n"), "!502 the status is not three digits" },
    { LEN("HTTP/1.1\r\n\r\n"), "!502 the status is not between 100 and 599" },
    { LEN("HTTP/2 200\r\n\r\n"), "!502 the version is not of the form HTTP/1.1" },
    { LEN("HTTP/3.0 200 OK\r\n\r\n"), "!502 only HTTP/1.1 and HTTP/1.0 are supported" },
    { LEN("ICY 200 OK\r\n\r\n"), "!502 the version is not of the form HTTP/1.1" },
    { LEN("SSH-2.0-x\r\n"), "!502 the version is not of the form HTTP/1.1" },
};

/* Small, so that rows reach them. */
static const struct http_limits small = {
    .head_bytes = 1024,
    .target_bytes = 64,
    .headers = 8,
    .body_bytes = 64,
};

/* The same bytes with a cut behind every step of them; step 0: one cut, at that place. */
static size_t check_cut(const struct row *row, enum http_side side, size_t step, size_t at)
{
    struct transcript t;

    transcript_init(&t, side, &small);
    for (size_t pos = 0; pos < row->len;) {
        size_t len = step ? MIN(step, row->len - pos) : pos < at ? at - pos : row->len - pos;
        /* A block of its own, so that the sanitizer sees a look beyond it. */
        auto_free char *piece = mem_dup(row->data + pos, len);
        transcript_feed(&t, piece, len);
        pos += len;
    }
    transcript_eof(&t);
    if (strcmp(strbuf_str(&t.text), row->expected) != 0)
        fail_msg("row %s\n in steps of %zu, cut at %zu: gave %s\nexpected %s", row->data, step, at,
                 strbuf_str(&t.text), row->expected);
    size_t used = t.used;
    transcript_done(&t);
    return used;
}

static void check_rows(const struct row *rows, size_t n, enum http_side side)
{
    for (size_t i = 0; i < n; i++) {
        size_t used = check_cut(&rows[i], side, rows[i].len + 1, 0);
        assert_int_equal(check_cut(&rows[i], side, 1, 0), used);
        assert_int_equal(check_cut(&rows[i], side, 3, 0), used);
        for (size_t at = 1; at < rows[i].len; at++)
            assert_int_equal(check_cut(&rows[i], side, 0, at), used);
    }
}

static void test_requests(void **state)
{
    (void)state;
    check_rows(requests, ARRAY_LEN(requests), HTTP_REQUESTS);
}

static void test_responses(void **state)
{
    (void)state;
    check_rows(responses, ARRAY_LEN(responses), HTTP_RESPONSES);
}

/* What a whole stream gives, with the default limits. */
static char *read_all(enum http_side side, const struct strbuf *in)
{
    struct transcript t;

    transcript_init(&t, side, NULL);
    transcript_feed(&t, in->data, in->len);
    char *text = mem_dup(strbuf_str(&t.text), t.text.len);
    transcript_done(&t);
    return text;
}

static void repeat(struct strbuf *out, const char *text, size_t times)
{
    while (times-- > 0)
        strbuf_puts(out, text);
}

/* Each limit: the last that fits, and the first that does not. */
static void test_limits(void **state)
{
    static const struct {
        const char *before;
        const char *unit;
        size_t fits;
        const char *after;
        const char *fault;
    } rows[] = {
        { "GET /", "a", 8191, " HTTP/1.1\r\nHost: a\r\n\r\n", "!414 the target is too long" },
        { "GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 99, "\r\n", "!431 too many fields" },
        /* 16384 less the 32 other bytes */
        { "GET / HTTP/1.1\r\nHost: a\r\nX: ", "y", 16352, "\r\n\r\n", "!431 the head is too long" },
        { "A", "B", 31, " / HTTP/1.1\r\nHost: a\r\n\r\n", "!501 the method is too long" },
        /* 64 bytes of extension each */
        { "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
          "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", 128,
          "0\r\n\r\n", "!400 too much in chunk extensions" },
        { "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;a", "b", 2043,
          "\r\n\r\n", "!400 a line of a chunked body is too long" },
        { "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
          "X: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 256, "\r\n", "!431 too much in trailers" },
        { "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
          "1000\r\n"
#define S64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define S1K S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64
          S1K S1K S1K S1K "\r\n",
          256, "0\r\n\r\n", "!413 the body is too long" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t more = 0; more < 2; more++) {
            auto_strbuf struct strbuf in = { 0 };
            strbuf_puts(&in, rows[i].before);
            repeat(&in, rows[i].unit, rows[i].fits + more);
            strbuf_puts(&in, rows[i].after);
            auto_free char *got = read_all(HTTP_REQUESTS, &in);
            const char *found = strrchr(got, '!');
            if (more ? !found || strcmp(found, rows[i].fault) != 0
                     : !!strcmp(got + strlen(got) - strlen("] +; "), "] +; "))
                fail_msg("limit %zu, %s: %s", i, more ? "beyond" : "within",
                         found ? found : "taken");
        }
    }
}

/* A head is there before its body, and a too long body is refused only after it. */
static void test_head_first(void **state)
{
    static const char request[] = "POST /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n"
                                  "Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n";
    struct http_parser parser;
    size_t used;

    (void)state;
    http_parser_init(&parser, HTTP_REQUESTS, NULL);
    assert_true(http_parser_is_idle(&parser));
    assert_int_equal(http_parser_feed(&parser, "P", 1, &used), HTTP_MORE);
    assert_false(http_parser_is_idle(&parser));
    assert_int_equal(http_parser_feed(&parser, request + 1, strlen(request) - 1, &used), HTTP_HEAD);
    assert_int_equal(used, strlen(request) - 1);
    assert_string_equal(parser.head.method, "POST");
    assert_string_equal(parser.head.host, "a");
    assert_string_equal(http_header(&parser.head, "AUTHORIZATION"), "Bearer t");
    assert_null(http_header(&parser.head, "Auth"));
    assert_true(parser.head.expect_continue);
    assert_int_equal(parser.head.framing, HTTP_LENGTH);
    assert_int_equal(parser.head.body_bytes, 9999999);
    assert_int_equal(parser.head.minor, 1);
    http_parser_limit_body(&parser, 9999999);
    assert_int_equal(http_parser_feed(&parser, "ab", 2, &used), HTTP_BODY);
    assert_int_equal(parser.body_len, 2);
    http_parser_done(&parser);

    http_parser_init(&parser, HTTP_REQUESTS, NULL);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request), &used), HTTP_HEAD);
    assert_int_equal(http_parser_feed(&parser, "ab", 2, &used), HTTP_ERROR);
    assert_int_equal(used, 0);
    assert_int_equal(parser.fault.status, 413);
    /* Once failed, always failed. */
    http_parser_next(&parser);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request), &used), HTTP_ERROR);
    assert_int_equal(http_parser_eof(&parser), HTTP_ERROR);
    http_parser_done(&parser);
}

/* The limit that a message was given does not hold for the next one. */
static void test_next_forgets(void **state)
{
    static const char request[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
    struct http_parser parser;
    size_t used;

    (void)state;
    http_parser_init(&parser, HTTP_REQUESTS, NULL);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request), &used), HTTP_HEAD);
    http_parser_limit_body(&parser, 4);
    assert_int_equal(http_parser_feed(&parser, "abcd", 4, &used), HTTP_BODY);
    assert_int_equal(http_parser_feed(&parser, NULL, 0, &used), HTTP_END);
    http_parser_next(&parser);
    assert_true(http_parser_is_idle(&parser));
    assert_int_equal(http_parser_eof(&parser), HTTP_MORE);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request), &used), HTTP_HEAD);
    http_parser_limit_body(&parser, 3);
    assert_int_equal(http_parser_feed(&parser, "abcd", 4, &used), HTTP_ERROR);
    http_parser_done(&parser);
}

static void test_head_answer(void **state)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    struct http_parser parser;
    size_t used;

    (void)state;
    http_parser_init(&parser, HTTP_RESPONSES, NULL);
    http_parser_expect_no_body(&parser);
    assert_int_equal(http_parser_feed(&parser, answer, strlen(answer), &used), HTTP_HEAD);
    assert_int_equal(http_parser_feed(&parser, NULL, 0, &used), HTTP_END);
    http_parser_next(&parser);
    assert_int_equal(http_parser_feed(&parser, answer, strlen(answer), &used), HTTP_HEAD);
    assert_int_equal(http_parser_feed(&parser, NULL, 0, &used), HTTP_MORE);
    http_parser_done(&parser);
}

static void test_fields(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nVia:  one , two\r\nEmpty:\r\n"
                                  "via: three\t\r\nX: two words\r\n\r\n";
    struct http_parser parser;
    size_t used;

    (void)state;
    http_parser_init(&parser, HTTP_REQUESTS, NULL);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request), &used), HTTP_HEAD);
    assert_int_equal(parser.head.n_headers, 5);
    assert_string_equal(parser.head.headers[1].name, "Via");
    assert_string_equal(http_header(&parser.head, "via"), "one , two");
    assert_string_equal(http_header(&parser.head, "empty"), "");
    assert_true(http_header_has(&parser.head, "Via", "ONE"));
    assert_true(http_header_has(&parser.head, "Via", "two"));
    assert_true(http_header_has(&parser.head, "Via", "three"));
    assert_false(http_header_has(&parser.head, "Via", "on"));
    assert_false(http_header_has(&parser.head, "Via", "ones"));
    assert_false(http_header_has(&parser.head, "Empty", ""));
    assert_true(http_header_has(&parser.head, "X", "two words"));
    assert_false(http_header_has(&parser.head, "X", "two"));
    assert_false(parser.head.expect_continue);
    http_parser_done(&parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),     cmocka_unit_test(test_responses),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_head_first),
        cmocka_unit_test(test_next_forgets), cmocka_unit_test(test_head_answer),
        cmocka_unit_test(test_fields),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
