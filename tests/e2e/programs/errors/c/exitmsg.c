#include <stdio.h>
#include <stdlib.h>
int main(void) {
    fprintf(stderr, "error: cannot open config\n");
    return EXIT_FAILURE;
}
