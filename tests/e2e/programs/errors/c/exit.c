int main(void) { return 7; }
