#include <stdoi.h>
int main(void) { return 0; }
