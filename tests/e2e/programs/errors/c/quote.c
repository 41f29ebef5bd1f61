#include <stdio.h>
int main(void) {
    printf("abc);
    return 0;
}
