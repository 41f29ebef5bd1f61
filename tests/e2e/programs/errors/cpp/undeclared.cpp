#include <iostream>
int main() {
    std::cout << valeu << std::endl;
}
