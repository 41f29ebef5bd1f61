#include "nobody_has.h"
int main(void) { return 0; }
