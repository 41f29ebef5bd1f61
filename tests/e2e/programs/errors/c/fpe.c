int main(int argc, char **argv) {
    return 1000 / (argc - 1);
}
