int main() { throw 3; }
