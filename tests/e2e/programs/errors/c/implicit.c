#include <stdio.h>
int main(void) {
    int *p = malloc(4);
    char s[2] = { 1, 2 };
    s = "ab";
    return *p;
}
