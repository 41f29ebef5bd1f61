#include <string.h>
#include <stdio.h>
int main(int argc, char **argv) {
    char b[4];
    strcpy(b, "much too long for this");
    puts(b);
    return 0;
}
