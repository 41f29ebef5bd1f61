/* SPDX-License-Identifier: Apache-2.0 */
/* Enters the kernel by a foreign door: "int80" (getpid of the 32-bit table) or "x32" (getpid with
 * the x32 bit). Prints what came back; a sandbox kills it before. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    long r;

    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "int80") == 0)
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");
    else
        __asm__ volatile("syscall" : "=a"(r) : "a"(39L | 0x40000000L) : "rcx", "r11", "memory");
    printf("answered %ld\n", r);
    return 0;
}
