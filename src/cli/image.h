/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `cay image list`, in image-list.c; argv[0] is "list". Returns the exit status. */
int image_list(int argc, char **argv);
