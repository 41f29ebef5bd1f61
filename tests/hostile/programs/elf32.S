/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-bit program: writes a word and exits 7, if anybody lets it call anything. */
    .globl _start
    .section .note.GNU-stack, "", @progbits
    .text
_start:
    mov $4, %eax
    mov $1, %ebx
    mov $word, %ecx
    mov $5, %edx
    int $0x80
    mov $1, %eax
    mov $7, %ebx
    int $0x80
    .section .rodata
word:
    .ascii "ran32"
