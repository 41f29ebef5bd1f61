#include <allegro5/allegro.h>
int main(void) { return 0; }
