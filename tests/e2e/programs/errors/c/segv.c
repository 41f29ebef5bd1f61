#include <stddef.h>
int main(void) {
    volatile int *p = NULL;
    return *p;
}
