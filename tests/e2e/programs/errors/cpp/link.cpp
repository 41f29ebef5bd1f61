int missing(int);
int main() {
    return missing(1);
}
