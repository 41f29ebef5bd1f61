#include <stdio.h>
int main(void) {
    int total = 1;
    printf("%d\n", totla);
    return total;
}
