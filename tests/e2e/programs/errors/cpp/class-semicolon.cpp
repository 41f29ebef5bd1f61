class A {
    int x;
}
int main() { return 0; }
