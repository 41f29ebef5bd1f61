#include <new>
int main() {
    volatile unsigned long n = 1ul << 60;
    char *p = new char[n];
    return p[0];
}
