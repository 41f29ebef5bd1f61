int f(int n) { volatile char a[1000]; a[0] = (char)n; return f(n + 1) + a[0]; }
int main(void) { return f(0); }
