#include <cassert>
int main(int argc, char **) {
    assert(argc > 5);
}
