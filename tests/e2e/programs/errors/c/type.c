struct point { int x; };
int main(void) {
    struct point p = { 1 };
    int n = p;
    return n;
}
