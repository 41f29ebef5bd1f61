#include <iostraem>
int main() {}
