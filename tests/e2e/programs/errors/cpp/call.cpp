void f(int, int) {}
int main() {
    f("a");
}
