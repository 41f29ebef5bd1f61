/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The smallest program there is to start: whatever a sandbox takes beyond it is the sandbox's own.
 * Linked statically, for a dynamic linker would be measured along with it.
 */

int main(void)
{
    return 0;
}
